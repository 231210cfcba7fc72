package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// Agent is what the server asks of the agent.
type Agent interface {
	Status() Status
	Health() error
	Ready() error
	WriteMetrics(w io.Writer)
	TriggerCheckpoint(ctx context.Context, pipeline string) (CheckpointInfo, error)
	Checkpoints(pipeline string) ([]CheckpointInfo, error)
	StopPipeline(ctx context.Context, pipeline string) error
	StartPipeline(ctx context.Context, pipeline string) error
	RestartPipeline(ctx context.Context, pipeline string) error
	CreateSavepoint(ctx context.Context, pipeline string, o SavepointOptions) ([]SavepointInfo, error)
	StopWithSavepoint(ctx context.Context, pipeline string, o SavepointOptions) ([]SavepointInfo, error)
	RestoreSavepoint(ctx context.Context, pipeline string, o RestoreOptions) error
	// Apply gives nil when the caller went away: the apply goes on.
	Apply(ctx context.Context, o ApplyOptions, told func(ApplyEvent) error) *ApplyOutcome
	// Upgrade returns once the order is recorded; the status tells what becomes of it.
	Upgrade(ctx context.Context, o UpgradeOptions) error
	AbortUpgrade(ctx context.Context, why string) error
	DeadLetters(pipeline string, q DeadQuery, f func(DeadLetter) error) error
	Requeue(ctx context.Context, pipeline string, q RequeueQuery) (RequeueAnswer, error)
	TapPipeline(ctx context.Context, pipeline string, o TapOptions, line func(b []byte, more bool) error) error
}

// ErrNotFound is returned by an Agent for a pipeline that the config does not have.
var ErrNotFound = errors.New("no such pipeline")

// Server serves an Agent on a unix socket, or its metrics alone on TCP.
type Server struct {
	agent    Agent
	listener net.Listener
	http     *http.Server
}

// socketMode lets the service's group in.
const socketMode = 0o660

// ErrInUse: another process answers on the socket, or the path is of something else.
var ErrInUse = errors.New("api socket is in use")

// Listen binds the socket; nothing is answered before Run. A stale one, left by a killed process, is replaced; one that another process answers on (that of another state_dir: the
// caller holds the lock of its own) is left alone, and so is what is no socket: ErrInUse. Nothing on the disk has changed then.
func Listen(socket string, agent Agent, logger *slog.Logger) (*Server, error) {
	if err := removeStale(socket); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on api socket: %w", err)
	}
	if err := os.Chmod(socket, socketMode); err != nil {
		l.Close()
		return nil, fmt.Errorf("set mode of api socket: %w", err)
	}
	s := &Server{agent: agent, listener: l}
	s.http = newHTTP(s.routes(), logger)
	return s, nil
}

// removeStale makes room for a socket.
func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%w: %s is no socket; move it away, or set api.socket", ErrInUse, socket)
	}
	if c, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("%w: another process answers on %s; set api.socket to another path", ErrInUse, socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove stale api socket: %w", err)
	}
	return nil
}

// Close frees what Listen or ListenMetrics has bound when Run is not called; behind Run it changes nothing. A nil Server has nothing to free.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close listener: %w", err)
	}
	return nil
}

// ListenMetrics binds a TCP address that answers GET /metrics and nothing else.
func ListenMetrics(addr string, agent Agent, logger *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	s := &Server{agent: agent, listener: l}
	m := http.NewServeMux()
	m.HandleFunc("GET /metrics", s.metrics)
	s.http = newHTTP(m, logger)
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

func newHTTP(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// Run serves until ctx ends, then lets running requests finish for two seconds.
func (s *Server) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.http.Serve(s.listener) }() // ends with Shutdown; waited for below
	select {
	case err := <-done:
		return fmt.Errorf("serve api: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		s.http.Close()
	}
	<-done
	return nil
}

func (s *Server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.agent.Status(), nil) })
	m.HandleFunc("GET /v1/pipelines/{name}/checkpoints", func(w http.ResponseWriter, r *http.Request) {
		c, err := s.agent.Checkpoints(r.PathValue("name"))
		answer(w, c, err)
	})
	m.HandleFunc("POST /v1/pipelines/{name}/checkpoints", func(w http.ResponseWriter, r *http.Request) {
		c, err := s.agent.TriggerCheckpoint(r.Context(), r.PathValue("name"))
		answer(w, c, err)
	})
	for verb, do := range map[string]func(context.Context, string) error{
		"stop": s.agent.StopPipeline, "start": s.agent.StartPipeline, "restart": s.agent.RestartPipeline,
	} {
		m.HandleFunc("POST /v1/pipelines/{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			err := do(r.Context(), r.PathValue("name"))
			answer(w, map[string]string{"pipeline": r.PathValue("name"), "done": verb}, err)
		})
	}
	s.savepointRoutes(m)
	s.applyRoutes(m)
	s.upgradeRoutes(m)
	m.HandleFunc("GET /v1/pipelines/{name}/deadletters", s.deadLetters)
	m.HandleFunc("POST /v1/pipelines/{name}/deadletters/requeue", s.requeue)
	m.HandleFunc("GET /v1/pipelines/{name}/tap", s.tap)
	m.HandleFunc("GET /metrics", s.metrics)
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.agent.Health()) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.agent.Ready()) })
	return m
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	s.agent.WriteMetrics(w)
}

func probe(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, ErrNotFound) {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		v = map[string]string{"error": err.Error()}
	}
	json.NewEncoder(w).Encode(v)
}
