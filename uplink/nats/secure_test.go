package nats

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// serve starts a server with settings.
func serve(t *testing.T, settings string) (addr, dir string) {
	t.Helper()
	path, err := rig.Tool("nats-server")
	if err != nil {
		t.Skipf("NOT TESTED against nats-server: %v", err)
	}
	dir = t.TempDir()
	if addr, err = rig.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("listen: %q\njetstream: {store_dir: %q}\n%s\n", addr, filepath.Join(dir, "js"), settings)
	write(t, filepath.Join(dir, "conf"), text)
	child, err := rig.StartChild(filepath.Join(dir, "log"), nil, path, "-c", filepath.Join(dir, "conf"))
	if err == nil {
		t.Cleanup(child.Kill)
		err = rig.WaitListening(addr, child)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, serverLog(dir))
	}
	return addr, dir
}

func serverLog(dir string) string {
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	return string(log)
}

// guarded starts a server that lets in only who it knows, with a stream; as is how the test itself gets in.
func guarded(t *testing.T, settings string, scheme string, as ...nats.Option) (c Config, dir string) {
	t.Helper()
	addr, dir := serve(t, settings)
	c = Default()
	c.URL, c.Stream = scheme+"://"+addr, testStream
	conn, err := nats.Connect(c.URL, append(as, nats.Timeout(rig.Patience))...)
	if err != nil {
		t.Fatalf("%v\n%s", err, serverLog(dir))
	}
	defer conn.Close()
	question, _ := json.Marshal(map[string]any{"name": testStream, "subjects": []string{"weir.>"}, "retention": "limits", "storage": "file", "num_replicas": 1, "max_consumers": -1,
		"max_msgs": -1, "max_bytes": -1, "discard": "new"})
	var answer *nats.Msg
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { // JetStream is up a little later than the port
		if answer, err = conn.Request("$JS.API.STREAM.CREATE."+testStream, question, rig.Patience); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("make stream: %v\n%s", err, serverLog(dir))
	}
	var made struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &made); err != nil || made.Error != nil {
		t.Fatalf("make stream: %s", answer.Data)
	}
	return c, dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// letsIn: with the right settings results arrive, with the wrong ones the sink says so, and goes on when they are right.
func letsIn(t *testing.T, good Config, spoil func(*Config), want ...string) {
	t.Helper()
	dial := func(t *testing.T, c Config) uplink.Endpoint {
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	e := dial(t, good)
	if _, err := e.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Error(err)
	}
	_ = e.Close()
	bad := good
	spoil(&bad)
	t.Run("wrong", uplinktest.Bad{Want: want, Secret: "sesame", Dial: func(t *testing.T) uplink.Endpoint { return dial(t, bad) }}.Run)
}

func TestToken(t *testing.T) {
	c, dir := guarded(t, `authorization: {token: "s3cr3t-token", timeout: 120}`, "nats", nats.Token("s3cr3t-token"))
	c.TokenFile = write(t, filepath.Join(dir, "token"), "s3cr3t-token\n")
	letsIn(t, c, func(c *Config) { c.TokenFile = write(t, filepath.Join(dir, "wrong"), "sesame") }, "Authorization Violation", "token_file", c.URL)
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := rig.NewAuthority(dir, "ca")
	uplinktest.Must(t, err)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	uplinktest.Must(t, ca.SignFiles("127.0.0.1", cert, key))
	c, _ := guarded(t, fmt.Sprintf("tls: {cert_file: %q, key_file: %q, timeout: 120}", cert, key), "tls", nats.RootCAs(ca.File))
	c.CAFile = ca.File
	letsIn(t, c, func(c *Config) { c.CAFile = "" }, "certificate", "give its CA in ca", c.URL)
}

// TestLoginTakesTooLong: a login to and fro over a slow link is longer than the server waits for it; what is to be done there is said.
func TestLoginTakesTooLong(t *testing.T) {
	addr, dir := serve(t, `authorization: {token: "s3cr3t-token", timeout: 0.05}`)
	line, err := rig.NewProxy(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	line.Slow(rig.Link{BytesPerSecond: 64_000 / 8, RoundTrip: 2 * time.Second, Faster: 10})
	c := Default()
	c.URL, c.Stream, c.TokenFile = "nats://"+line.Addr(), testStream, write(t, filepath.Join(dir, "token"), "s3cr3t-token")
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	said := func(err error) bool {
		return strings.Contains(err.Error(), "raise authorization.timeout and tls.timeout")
	}
	err = errors.New("not tried")
	for deadline := time.Now().Add(rig.Patience); !said(err) && time.Now().Before(deadline); { // the server's word may be lost with the connection that it ends
		if _, err = s.Open(t.Context(), uplinktest.Stream(), one, 1); err == nil {
			t.Fatal("the server let it in")
		}
	}
	if !said(err) {
		t.Error(err)
	}
}

func TestNoTLSThere(t *testing.T) {
	c, _ := guarded(t, "", "nats")
	letsIn(t, c, func(c *Config) { c.URL = "tls" + c.URL[len("nats"):] }, "the server speaks no TLS")
	letsIn(t, c, func(c *Config) { c.URL = "nats://nowhere..invalid:4222" }, "nowhere..invalid", "no such host")
}

// TestCredentials: an operator's server; the user's JWT and seed are in a .creds file.
func TestCredentials(t *testing.T) {
	operator, account, system, user := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateUser)
	limits := map[string]any{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1,
		"streams": -1, "consumer": -1}
	noStreams := maps.Clone(limits)
	noStreams["mem_storage"], noStreams["disk_storage"] = 0, 0
	operatorJWT := token(t, operator, operator, map[string]any{"type": "operator", "version": 2})
	accountJWT := token(t, operator, account, map[string]any{"type": "account", "version": 2, "limits": limits})
	userClaims := map[string]any{"type": "user", "version": 2, "pub": map[string]any{}, "sub": map[string]any{}, "subs": -1, "data": -1, "payload": -1}
	creds := func(signer nkeys.KeyPair) string {
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token(t, signer, user, userClaims), seed)
	}
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "user.creds"), creds(account))
	c, _ := guarded(t, fmt.Sprintf("operator: %s\nresolver: MEMORY\nsystem_account: %s\nresolver_preload: {%s: %s, %s: %s}", operatorJWT,
		public(t, system), public(t, account), accountJWT, public(t, system), token(t, operator, system, map[string]any{"type": "account", "version": 2, "limits": noStreams})), "nats", nats.UserCredentials(file))
	c.CredentialsFile = file
	letsIn(t, c, func(c *Config) {
		c.CredentialsFile = write(t, filepath.Join(dir, "other.creds"), creds(pair(t, nkeys.CreateAccount)))
	}, "Authorization Violation", "credentials_file")
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func public(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	p, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// token is a JWT as NATS signs them: ed25519 over header and claims.
func token(t *testing.T, issuer, subject nkeys.KeyPair, claims map[string]any) string {
	t.Helper()
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := encode(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." + encode(map[string]any{"jti": "test", "iat": time.Now().Unix(), "iss": public(t, issuer), "sub": public(t, subject), "name": "test", "nats": claims})
	sig, err := issuer.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}
