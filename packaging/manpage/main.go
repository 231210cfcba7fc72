// Command manpage writes weir(1) from what the program says of itself: every command with its help, in the order of the help. It runs when a package is built, so that the
// program need not hold a generator.
//
//	manpage PROGRAM >weir.1
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpage PROGRAM")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	err := page(out, os.Args[1])
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// page writes the whole page.
func page(out io.Writer, program string) error {
	h, err := helpOf(program, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, ".TH WEIR 1 \"\" \"weir\" \"User Commands\"\n.SH NAME\nweir \\- stateful stream processing on gateways\n.SH SYNOPSIS\n.B weir\n.I COMMAND\n[\\fIFLAGS\\fR]\n.SH DESCRIPTION\n%s", text(h.about))
	fmt.Fprintf(out, ".SH OPTIONS\nThose of every command.\n%s", verbatim(h.flags))
	fmt.Fprint(out, ".SH COMMANDS\n")
	for _, c := range h.commands {
		if err := command(out, program, []string{c.name}, c.short); err != nil {
			return err
		}
	}
	fmt.Fprint(out, tail)
	return nil
}

const tail = `.SH FILES
.TP
.I /etc/weir/weir.yaml
The config.
.TP
.I /etc/weir/credentials
Passwords and keys, one a file; the config names them credential:FILE.
.TP
.I /var/lib/weir
State: journal, checkpoints, results that wait.
.TP
.I /usr/share/doc/weir
Documentation and examples.
.SH EXIT STATUS
0: done. 1: it failed. 2: wrong usage or wrong config, nothing was touched. 3: no agent is running. 4: another weir process holds the state.
5: no pipeline has a valid checkpoint. 6, 7: a plan differs, and loses no state, or would lose some. 8: a changed config was gone back from.
.SH SEE ALSO
.BR systemctl (1),
.BR journalctl (1)
`

// command writes a command, and behind it those below it.
func command(out io.Writer, program string, path []string, short string) error {
	h, err := helpOf(program, path)
	if err != nil {
		return err
	}
	about := short + "."
	if h.about != short { // the help of a command that has a long one does not begin with the short one
		about += "\n\n" + h.about
	}
	fmt.Fprintf(out, ".SS %s\n%s", escape(strings.Join(path, " ")), text(about))
	fmt.Fprint(out, verbatim(h.usage+"\n"+h.flags))
	for _, c := range h.commands {
		if err := command(out, program, append(append([]string{}, path...), c.name), c.short); err != nil {
			return err
		}
	}
	return nil
}

// help is what a command says, in parts.
type help struct {
	about    string
	usage    string
	flags    string
	commands []listed
}

// listed is a command in the help of the one above it.
type listed struct{ name, short string }

var entry = regexp.MustCompile(`^  ([a-z][a-z-]*) +(.*)$`)

// skipped are commands about the commands.
var skipped = map[string]bool{"help": true, "completion": true}

func helpOf(program string, path []string) (h help, err error) {
	cmd := exec.Command(program, append(append([]string{}, path...), "--help")...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	b, err := cmd.Output()
	if err != nil {
		return h, fmt.Errorf("%s %s --help: %w", program, strings.Join(path, " "), err)
	}
	about, rest, found := strings.Cut(string(b), "\nUsage:\n")
	if !found {
		return h, fmt.Errorf("the help of %q has no usage", strings.Join(path, " "))
	}
	h.about = strings.TrimSpace(about)
	for _, part := range strings.Split("Usage:\n"+rest, "\n\n") {
		title, body, _ := strings.Cut(part, "\n")
		switch strings.TrimSuffix(title, ":") {
		case "Usage":
			h.usage = body
		case "Flags":
			h.flags = body
		case "Available Commands":
			for line := range strings.SplitSeq(body, "\n") {
				if m := entry.FindStringSubmatch(line); m != nil && !skipped[m[1]] {
					h.commands = append(h.commands, listed{m[1], m[2]})
				}
			}
		}
	}
	return h, nil
}

// text is paragraphs for troff.
func text(s string) string {
	return escape(strings.ReplaceAll(s, "\n\n", "\n.PP\n")) + "\n"
}

// verbatim keeps lines as they are.
func verbatim(s string) string {
	if s = strings.Trim(s, "\n"); s == "" {
		return ""
	}
	return ".PP\n.nf\n" + escape(s) + "\n.fi\n"
}

// escape keeps troff from reading what is text: backslashes, hyphens that are no dashes, and lines that begin as a request does (.PP, which text puts in, is one).
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if (strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'")) && l != ".PP" {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
