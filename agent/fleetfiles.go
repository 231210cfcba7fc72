//go:build !nocentral

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
)

const (
	// handInMost bounds a file that is handed in: it is in memory as a whole.
	handInMost = 64 << 20
	// tryWait and tryMost are between two tries to hand a file in.
	tryWait, tryMost = 15 * time.Second, 30 * time.Minute
	// diagnosticsMost bounds one file of an archive.
	diagnosticsMost = 1 << 20
	// recordMost bounds a file that goes into one.
	recordMost = 16 << 20
)

// uploadTry is how often a file could not be handed in, and when it is tried next.
type uploadTry struct {
	fails int
	next  time.Time
}

// handIn puts files into the store, below the gateway's own names, sealed when uploads are. later: the store does not answer, it is tried again.
func (s *fleetSide) handIn(ctx context.Context, o *channel.Order, dir string, files []string) (names []string, later bool, err error) {
	t := s.tries[orderName(o)]
	if t == nil {
		t = &uploadTry{}
		s.tries[orderName(o)] = t
	}
	if time.Now().Before(t.next) {
		return nil, true, nil
	}
	for _, file := range files {
		name, body, err := s.sealed(dir, file)
		if err != nil {
			return names, false, err
		}
		put, cancel := context.WithTimeout(ctx, s.agent.config.Central.Timeout+time.Duration(len(body)>>10)*time.Second)
		err = s.paced(put, name, body)
		cancel()
		if err != nil {
			t.fails++
			t.next = time.Now().Add(min(tryWait<<min(t.fails, 10), tryMost))
			if t.fails == 1 {
				s.agent.log.Warn("file is not handed in; it is tried again", "file", file, "error", err)
			}
			return names, true, nil
		}
		names = append(names, name)
	}
	delete(s.tries, orderName(o))
	return names, false, nil
}

// paced sends over the link of the central store, at its pace.
func (s *fleetSide) paced(ctx context.Context, name string, body []byte) error {
	a := s.agent
	if err := a.offsites.pace(ctx, len(body)); err != nil {
		return err
	}
	return a.offsites.bucket.Put(ctx, name, body)
}

// sealed reads a file, and encrypts it for the recipients of the central store, if there are any.
func (s *fleetSide) sealed(dir, file string) (name string, body []byte, err error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > handInMost {
		err = fmt.Errorf("%s has %d bytes, and %d at most are handed in: it stays on the device", file, info.Size(), handInMost)
	}
	if err == nil {
		body, err = disk.ReadPlain(file, handInMost)
	}
	if err != nil {
		return "", nil, err
	}
	name = depot.File(s.agent.gateway(), dir+"/"+filepath.Base(file))
	var list []string
	for _, r := range s.agent.config.Central.Recipients {
		list = append(list, r.Value)
	}
	if len(list) == 0 {
		return name, body, nil
	}
	seal, err := central.SealTo(list)
	if err == nil {
		body, err = seal(body)
	}
	return name + ".age", body, err
}

// diagnose collects what somebody needs who cannot look at the device.
func (s *fleetSide) diagnose(ctx context.Context, o *channel.Order) channel.Outcome {
	file := filepath.Join(s.dir(), "diagnostics", orderName(o)+".tar.gz")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		b, err := s.archive()
		if err == nil {
			err = disk.OS.MkdirAll(filepath.Dir(file))
		}
		if err == nil {
			err = s.onlyOne(filepath.Dir(file))
		}
		if err == nil {
			err = disk.WriteFileAtomic(disk.OS, file, b)
		}
		if err != nil {
			return outcomeOf(fmt.Errorf("collect diagnostics: %w", err), "")
		}
	}
	if !o.Upload {
		return outcomeOf(nil, "it stays on the device", file)
	}
	names, later, err := s.handIn(ctx, o, "diagnostics", []string{file})
	if later {
		return channel.Outcome{}
	}
	if err == nil {
		err = os.Remove(file)
	}
	return outcomeOf(err, "", names...)
}

// onlyOne removes the archives of earlier commands.
func (s *fleetSide) onlyOne(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// archive is a bounded tar of what there is to know: nothing secret, and nothing of the state or the messages.
func (s *fleetSide) archive() ([]byte, error) {
	a := s.agent
	status, err := json.MarshalIndent(a.Status(), "", " ")
	if err != nil {
		return nil, err
	}
	var metrics bytes.Buffer
	a.WriteMetrics(&metrics)
	files := []struct {
		name string
		body []byte
	}{{"status.json", status}, {"metrics.txt", metrics.Bytes()}, {"config.yaml", redacted(a.roster.Load().config.Text)}, {"log.txt", a.lines.bytes()}}
	for _, name := range []string{"pipelines.json", "flash.json", "apply/record", "upgrade/rec.0", "upgrade/rec.1", "fleet/ledger.json"} {
		b, err := disk.ReadPlain(filepath.Join(a.config.StateDir.Value, name), recordMost)
		if err != nil {
			continue // it is not there, which the archive shows
		}
		if name == "fleet/ledger.json" {
			b = withoutConfigs(b)
		}
		files = append(files, struct {
			name string
			body []byte
		}{"records/" + filepath.Base(name), b})
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range files {
		if over := len(f.body) - diagnosticsMost; over > 0 {
			f.body = f.body[over:] // the newest of a log is at its end
		}
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.body)), ModTime: time.Now()}))
		if err == nil {
			_, err = t.Write(f.body)
		}
	}
	err = errors.Join(err, t.Close(), z.Close())
	return out.Bytes(), err
}

var (
	secretLine = regexp.MustCompile(`(?im)^(\s*(?:-\s*)?["']?[\w.-]*(?:password|passwd|secret|token|authorization|cookie|api[-_]?key|private)[\w.-]*["']?\s*:\s*)([^\s#].*)$`)
	secretFlow = regexp.MustCompile(`(?i)(["']?[\w.-]*(?:password|passwd|secret|token|authorization|cookie|api[-_]?key|private)[\w.-]*["']?\s*:\s*)("[^"]*"|'[^']*'|[^,}\s]+)`)
	userInURL  = regexp.MustCompile(`(://)[^/@\s"']+@`)
	fileKey    = regexp.MustCompile(`(?i)_file["']?\s*:`)
	headerLine = regexp.MustCompile(`(?i)headers["']?\s*:`)
)

// uncommented is a line without its comment: nobody knows what people write there.
func uncommented(line []byte) []byte {
	quote := byte(0)
	for i, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' && (i == 0 || bytes.IndexByte([]byte(" :[{,"), line[i-1]) >= 0):
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return append(bytes.Clone(line[:i]), '\n')
		}
	}
	return line
}

// redacted is a config without what could be a secret: what stands behind a key that sounds like one, users in URLs, headers, and comments. Names of files stay: secrets lie in them.
func redacted(text []byte) []byte {
	var out bytes.Buffer
	within := -1 // how deep the headers begin
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		line = uncommented(line)
		depth := len(line) - len(bytes.TrimLeft(line, " "))
		blank := len(bytes.TrimSpace(line)) == 0
		switch {
		case within >= 0 && !blank && depth > within:
			i := bytes.IndexByte(line, ':')
			out.Write(line[:i+1])
			out.WriteString(" REDACTED\n")
			continue
		case !blank:
			within = -1
		}
		if at := headerLine.FindIndex(line); at != nil {
			within = depth
			if bytes.IndexByte(line[at[1]:], '{') >= 0 {
				out.Write(line[:at[1]])
				out.WriteString(" REDACTED\n")
				continue
			}
		}
		secret := secretLine
		if bytes.IndexByte(line, '{') >= 0 {
			secret = secretFlow
		}
		line = secret.ReplaceAllFunc(line, func(found []byte) []byte {
			if key := secret.FindSubmatch(found)[1]; !fileKey.Match(key) {
				return append(bytes.Clone(key), "REDACTED"...)
			}
			return found
		})
		out.Write(userInURL.ReplaceAll(line, []byte("${1}REDACTED@")))
	}
	return out.Bytes()
}

// withoutConfigs is the channel's ledger with the length of a config in place of its text, which is in it as one string: nothing finds secrets in there line by line.
func withoutConfigs(ledger []byte) []byte {
	var whole map[string]any
	if err := json.Unmarshal(ledger, &whole); err != nil {
		return []byte("left out: it cannot be read: " + err.Error() + "\n")
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for name, one := range v {
				if text, is := one.(string); is && name == "config" {
					v[name] = fmt.Sprintf("REDACTED: %d bytes", len(text))
				}
				walk(one)
			}
		}
	}
	walk(whole)
	b, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return nil
	}
	return b
}
