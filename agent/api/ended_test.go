package api

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnAgentThatIsKilledWhileItAnswers: its caller learns that, before the answer begins and within it, and of an apply what becomes of it.
func TestAnAgentThatIsKilledWhileItAnswers(t *testing.T) {
	for _, begun := range []bool{false, true} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if begun {
				w.Write([]byte("{\"pipeline\":\"p\",\"change\":\"changed\"}\n{\"pipe"))
				http.NewResponseController(w).Flush()
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		})}
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		c := Dial(socket)
		if _, err := c.TriggerCheckpoint(t.Context(), "p"); !begun && !errors.Is(err, ErrEnded) {
			t.Errorf("a checkpoint: %v", err)
		}
		_, err = c.Apply(t.Context(), ApplyOptions{File: "f"}, func(ApplyEvent) error { return nil })
		want := "the agent ended before it answered"
		if begun {
			want = "the agent ended within the apply; the next start goes on with it"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an apply, answer begun %v: %v", begun, err)
		}
		server.Close()
		<-done
	}
}
