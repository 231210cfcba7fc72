package signed

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// gotThrough are the attacks that a Trust with that fault accepts: none without one.
func gotThrough(t *testing.T, fault planted) (accepted []string) {
	t.Helper()
	tr := trust(t)
	tr.fault = fault
	payload := []byte(`{"fleet":"plant"}`)
	try := func(name, typ string, b []byte) {
		if got, err := tr.Verify(b, typ); err == nil {
			accepted = append(accepted, name)
		} else if got != nil {
			t.Errorf("%s: a payload beside the error %v", name, err)
		}
	}
	good := sealed(t, TypeRollout, payload, "d1", "d2")
	if _, err := tr.Verify(good, TypeRollout); err != nil && !fault.typeUnbound {
		t.Fatal(err)
	}
	envelope := func(e Envelope) []byte { return e.Bytes() }
	parsed, err := Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	sigs := parsed.Signatures

	step := 1
	if fault != (planted{}) {
		step = 7 // each byte is for the build without a fault
	}
	for n := 0; n < len(good); n += step {
		if n < len(good)-1 { // the line's end
			try("cut short", TypeRollout, good[:n])
		}
		for bit := range 8 {
			flipped := bytes.Clone(good)
			flipped[n] ^= 1 << bit
			try("a bit flipped", TypeRollout, flipped)
		}
	}
	try("type swapped", TypeCommands, envelope(Envelope{TypeCommands, payload, sigs}))
	bare := Envelope{Type: TypeRollout, Payload: payload} // signatures of the bytes alone: another protocol's, or another type's
	for _, s := range sigs {
		for _, k := range []string{"d1", "d2"} {
			if keyOf(k).ID() == s.Key {
				bare.Signatures = append(bare.Signatures, Signature{s.Key, signBare(k, payload)})
			}
		}
	}
	try("type not signed", TypeRollout, bare.Bytes())
	try("payload swapped", TypeRollout, envelope(Envelope{TypeRollout, []byte(`{"fleet":"other"}`), sigs}))
	try("deploy signs a release", TypeRelease, sealed(t, TypeRelease, payload, "d1", "d2"))
	try("release signs a roll-out", TypeRollout, sealed(t, TypeRollout, payload, "rel", "d1"))
	try("the same key twice", TypeRollout, envelope(Envelope{TypeRollout, payload, []Signature{sigs[0], sigs[0]}}))
	try("unknown keys", TypeRollout, sealed(t, TypeRollout, payload, names("stranger", 20)...))
	try("under another's name", TypeRollout, envelope(Envelope{TypeRollout, payload, []Signature{sigs[0], {sigs[1].Key, sigs[0].Sig}}}))
	third := sealed(t, TypeRollout, payload, "d1", "d2", "r1")
	p3, _ := Parse(third)
	p3.Signatures[2] = Signature{sigs[0].Key, slices.Repeat([]byte{7}, 64)}
	p3.Signatures[0], p3.Signatures[2] = p3.Signatures[2], p3.Signatures[0]
	try("a wrong one beside enough", TypeRollout, p3.Bytes())
	root := seal(t, firstRoot(), "r1", "r2", "r3")
	wrong, _ := Parse(root)
	wrong.Signatures[2].Sig = slices.Repeat([]byte{7}, 64)
	if err := tr.Advance(wrong.Bytes()); err == nil || errors.Is(err, ErrChain) {
		accepted = append(accepted, "a root with a wrong signature beside enough")
	}

	text := string(good)
	sig := base64.StdEncoding.EncodeToString(sigs[0].Sig)
	for name, variant := range map[string]string{
		"no padding":    strings.Replace(text, sig, strings.TrimRight(sig, "="), 1),
		"line break":    strings.Replace(text, sig, sig[:8]+`\n`+sig[8:], 1),
		"space":         strings.Replace(text, sig, sig[:8]+" "+sig[8:], 1),
		"other padding": strings.Replace(text, sig, lastBits(sig), 1),
		"url alphabet":  strings.Replace(text, sig, strings.NewReplacer("+", "-", "/", "_").Replace(sig), 1),
	} {
		if variant != text { // no + or / in it: the same text
			try("base64: "+name, TypeRollout, []byte(variant))
		}
	}
	return append(accepted, rootsThrough(t, fault)...)
}

// rootsThrough are the roots that are taken and should not be.
func rootsThrough(t *testing.T, fault planted) (accepted []string) {
	renewed := func(version uint64) *Root {
		return rootOf(version, grant(2, version, "n1", "n2"), grant(1, 1, "rel"), grant(2, 1, "d1", "d2"), "n1", "n2", "rel", "d1", "d2")
	}
	gap := firstRoot()
	gap.Version = 3
	junk := sealed(t, TypeRoot, slices.Repeat([]byte("[{"), 100_000)) // nobody signed it
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"by the old keys alone", seal(t, renewed(2), "r1", "r2"), ErrThreshold},
		{"by the new keys alone", seal(t, renewed(2), "n1", "n2"), ErrThreshold},
		{"a gap", seal(t, gap, "r1", "r2"), ErrChain},
		{"the same again", seal(t, firstRoot(), "r1", "r2"), ErrChain},
		{"by deploy keys", seal(t, renewed(2), "d1", "d2"), ErrThreshold},
		{"unsigned rubbish", junk, ErrThreshold}, // ErrForm would tell that it was parsed
		{"another type", sealed(t, TypeRollout, []byte("{}"), "r1", "r2"), ErrType},
	} {
		tr := trust(t)
		tr.fault = fault
		if err := tr.Advance(c.b); !errors.Is(err, c.want) {
			accepted = append(accepted, fmt.Sprintf("root: %s: %v", c.name, err))
		}
	}
	return accepted
}

func TestAttacks(t *testing.T) {
	for _, name := range gotThrough(t, planted{}) {
		t.Errorf("accepted: %s", name)
	}
}

// TestAttacksFindFaults plants each fault: attacks that all faults survive show nothing.
func TestAttacksFindFaults(t *testing.T) {
	for name, fault := range map[string]planted{
		"any role": {anyRole: true}, "twice": {twice: true}, "wrong passes": {wrongPasses: true}, "type unbound": {typeUnbound: true}, "old alone": {oldAlone: true},
		"new alone": {newAlone: true}, "any next": {anyNext: true}, "parsed first": {parseFirst: true}, "loose base64": {loose64: true},
	} {
		if found := gotThrough(t, fault); len(found) == 0 {
			t.Errorf("the planted fault (%s) was not found", name)
		}
	}
}

// lastBits sets a bit of the last character that no byte has: another text for the same bytes.
func lastBits(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	body := strings.TrimRight(text, "=")
	last := strings.IndexByte(alphabet, body[len(body)-1])
	return body[:len(body)-1] + string(alphabet[last|1]) + text[len(body):]
}

func TestSizes(t *testing.T) {
	tr := trust(t)
	large := slices.Repeat([]byte("x"), BytesMax*3/4-600)
	b := sealed(t, TypeRollout, large, "d1", "d2")
	b = append(b, bytes.Repeat([]byte(" "), BytesMax-len(b))...)
	if _, err := tr.Verify(b, TypeRollout); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	if _, err := tr.Verify(append(b, ' '), TypeRollout); !errors.Is(err, ErrSize) {
		t.Errorf("1 MiB and a byte: %v", err)
	}
	if _, err := Seal(t.Context(), TypeRollout, append(large, large...), keyOf("d1")); !errors.Is(err, ErrSize) {
		t.Errorf("sealing 1.5 MiB: %v", err)
	}
	all := append(names("stranger", 30), "d1", "d2")
	if _, err := tr.Verify(sealed(t, TypeRollout, []byte("{}"), all...), TypeRollout); err != nil {
		t.Errorf("32 signatures: %v", err)
	}
	e, _ := Parse(sealed(t, TypeRollout, []byte("{}"), all...))
	if err := e.Add(t.Context(), keyOf("one more")); !errors.Is(err, ErrForm) {
		t.Errorf("signing a 33rd time: %v", err)
	}
	if err := e.Add(t.Context(), keyOf("d1")); err != nil || len(e.Signatures) != 32 {
		t.Errorf("signing again with a key that has signed: %v", err)
	}
	e.Signatures = append(e.Signatures, Signature{keyOf("one more").ID(), make([]byte, 64)})
	if _, err := tr.Verify(e.Bytes(), TypeRollout); !errors.Is(err, ErrForm) {
		t.Errorf("33 signatures: %v", err)
	}
}

// TestEnvelopeForms: JSON that other readers let pass.
func TestEnvelopeForms(t *testing.T) {
	good := strings.TrimSpace(string(sealed(t, TypeRollout, []byte("{}"), "d1", "d2")))
	if _, err := Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse([]byte(" \r\n\t" + strings.ReplaceAll(good, `,"`, ` , "`) + "\n")); err != nil {
		t.Errorf("with spaces: %v", err)
	}
	for name, b := range map[string]string{
		"nothing":               "",
		"a member twice":        strings.Replace(good, `"type"`, `"type":"rollout","type"`, 1),
		"a member in two cases": strings.Replace(good, `"type"`, `"Type":"release","type"`, 1),
		"an unknown member":     strings.Replace(good, `"type"`, `"expires":1,"type"`, 1),
		"one in a signature":    strings.Replace(good, `"sig"`, `"alg":"none","sig"`, 1),
		"one that is missing":   strings.Replace(good, `"weir":1,`, ``, 1),
		"null":                  strings.Replace(good, `"rollout"`, `null`, 1),
		"something behind":      good + `{}`,
		"a byte order mark":     "\ufeff" + good,
		"deep":                  strings.Repeat(`{"weir":`, 100_000),
		"deep lists":            `{"weir":1,"type":"rollout","payload":"","signatures":` + strings.Repeat("[", 300_000),
		"deep unknown":          `{"weir":1,"x":` + strings.Repeat("[", 300_000),
		"a list":                "[" + good + "]",
		"format 0":              strings.Replace(good, `"weir":1`, `"weir":0`, 1),
		"format 1.0":            strings.Replace(good, `"weir":1`, `"weir":1.0`, 1),
		"format -1":             strings.Replace(good, `"weir":1`, `"weir":-1`, 1),
		"no such type":          strings.Replace(good, `"rollout"`, `"rollouts"`, 1),
		"a key in capitals":     strings.Replace(good, string(keyOf("d1").ID()), strings.ToUpper(string(keyOf("d1").ID())), 1),
		"a short key":           strings.Replace(good, string(keyOf("d1").ID()), "abc", 1),
	} {
		if _, err := Parse([]byte(b)); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, b := range []string{`{"weir":2}`, ` { "weir" : 17 , "how":"ever"}`} {
		if _, err := Parse([]byte(b)); !errors.Is(err, ErrVersion) || errors.Is(err, ErrForm) {
			t.Errorf("a later format: %v", err)
		}
	}
}

// TestVerifyReadsNoPayload: whatever the payload is, it is handed out as it is, or not touched.
func TestVerifyReadsNoPayload(t *testing.T) {
	tr := trust(t)
	for _, payload := range [][]byte{{}, {0xff, 0}, slices.Repeat([]byte("[{\"a\":"), 50_000)} {
		if got, err := tr.Verify(sealed(t, TypeRollout, payload, "d1", "d2"), TypeRollout); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%.10q: %v", payload, err)
		}
		if _, err := tr.Verify(sealed(t, TypeRollout, payload, "d1"), TypeRollout); !errors.Is(err, ErrThreshold) {
			t.Errorf("%.10q by too few: %v", payload, err)
		}
	}
}
