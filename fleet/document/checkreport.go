package document

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirstream/weir/fleet/strict"
)

// What came of a command.
const (
	ResultDone    = "done"
	ResultRefused = "refused"
	ResultFailed  = "failed"
	ResultExpired = "expired"
	ResultNotHere = "not-for-this-gateway"
)

var results = []string{ResultDone, ResultRefused, ResultFailed, ResultExpired, ResultNotHere}

// Bounds of what a gateway tells in words, as the tags have them.
const (
	wordsMost  = 1024
	detailMost = 64 << 10
)

func (s *State) check() error {
	err := first(named("gateway", s.Gateway), optional("channel", s.Channel), optional("board", s.Board), optional("arch", s.Arch), optional("version", s.Version),
		optionalDigest("digest", s.Digest), optionalDigest("release", s.Release), between("root", s.Root, 0, uint64(strict.SerialMost)), between("at_ms", s.AtMs, 0, int64(strict.MsMost)))
	for _, k := range sorted(s.Serials) {
		err = first(err, named("serials", k), between("serials."+k, s.Serials[k], 0, uint64(strict.SerialMost)))
	}
	for _, k := range sorted(s.Pipeline) {
		err = first(err, named("pipelines", k), readable("pipelines."+k, s.Pipeline[k]))
	}
	for _, k := range sorted(s.Refused) {
		err = first(err, named("refused", k))
	}
	for i, p := range s.Problems {
		err = first(err, readable(fmt.Sprintf("problems[%d]", i), p))
	}
	if err == nil && s.Upgrade != nil {
		if err = s.Upgrade.check(); err != nil {
			return fmt.Errorf("upgrade: %w", err)
		}
	}
	return err
}

func (p *Progress) check() error {
	err := first(named("gateway", p.Gateway), optional("rollout", p.Rollout), optionalDigest("release", p.Release), optional("state", p.State), readable("why", p.Why),
		optional("from", p.From), optional("to", p.To), between("at_ms", p.AtMs, 0, int64(strict.MsMost)))
	for i, s := range p.Saved {
		err = first(err, readable(fmt.Sprintf("savepoints[%d]", i), s))
	}
	return err
}

func (r *Result) check() error {
	err := first(named("gateway", r.Gateway), scope(r.Scope), serial("serial", r.Serial), named("id", r.ID), named("do", r.Do), oneOf("result", r.Result, results),
		readable("detail", r.Detail), between("at_ms", r.AtMs, 0, int64(strict.MsMost)))
	for i, f := range r.Files {
		err = first(err, readable(fmt.Sprintf("files[%d]", i), f))
	}
	return err
}

// Encode is the payload. Words that do not print, or are too long, are mended by Clean; anything else that DecodeState would refuse is refused.
func (s *State) Encode() ([]byte, error) {
	c := *s
	c.Problems = cleanAll(c.Problems[:min(len(c.Problems), 64)])
	if c.Pipeline != nil {
		c.Pipeline = make(map[string]string, len(s.Pipeline))
		for k, v := range s.Pipeline {
			c.Pipeline[k] = Clean(v, 256)
		}
	}
	if s.Upgrade != nil {
		u := s.Upgrade.clean()
		c.Upgrade = &u
	}
	return encode("state", &c, &State{})
}

// Encode is the payload. Words that do not print, or are too long, are mended by Clean; anything else that DecodeProgress would refuse is refused.
func (p *Progress) Encode() ([]byte, error) {
	c := p.clean()
	return encode("progress", &c, &Progress{})
}

// Encode is the payload. Words that do not print, or are too long, are mended by Clean; anything else that DecodeResult would refuse is refused.
func (r *Result) Encode() ([]byte, error) {
	c := *r
	c.Detail, c.Files = Clean(c.Detail, detailMost), cleanAll(c.Files)
	return encode("result", &c, &Result{})
}

func (p *Progress) clean() Progress {
	c := *p
	c.Why, c.Saved = Clean(c.Why, wordsMost), cleanAll(c.Saved)
	return c
}

func cleanAll(list []string) (clean []string) {
	for _, s := range list {
		clean = append(clean, Clean(s, wordsMost))
	}
	return clean
}

// Clean makes of a text, say an error, one that a report may have: what does not print becomes �, and what is behind most bytes is cut off. Tabs and line ends stay.
func Clean(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if !prints(c) {
			return utf8.RuneError
		}
		return c
	}, text)
	if len(text) <= most {
		return text
	}
	const mark = "…"
	n := max(0, most-len(mark))
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + mark
}

func prints(c rune) bool { return c == '\n' || c == '\t' || unicode.IsPrint(c) }

// readable refuses words that would do something to a terminal.
func readable(member, words string) error {
	for _, c := range words {
		if !prints(c) {
			return fmt.Errorf("%s: %q in it, which does not print", member, c)
		}
	}
	return nil
}

func optional(member, value string) error {
	if value == "" {
		return nil
	}
	return named(member, value)
}

func optionalDigest(member, value string) error {
	if value == "" {
		return nil
	}
	return digest(member, value)
}
