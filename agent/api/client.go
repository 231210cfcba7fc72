package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
)

// ErrNotRunning: no agent listens on the socket.
var ErrNotRunning = errors.New("no agent is running")

// ErrEnded: the agent was killed, or stopped, with the request under way.
var ErrEnded = errors.New("the agent ended before it answered; whether it did what was asked, weir status tells once it runs again")

// ended tells that the other side of the socket is gone.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Client talks to a running agent.
type Client struct {
	socket string
	http   *http.Client
}

// Dial makes a client for a socket. It does not connect yet.
func Dial(socket string) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	return &Client{socket: socket, http: &http.Client{Transport: t}}
}

// Status asks for the agent's status.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.call(ctx, http.MethodGet, "/v1/status", &s)
}

// Checkpoints lists the retained checkpoints of a pipeline, oldest first.
func (c *Client) Checkpoints(ctx context.Context, pipeline string) (l []CheckpointInfo, err error) {
	return l, c.call(ctx, http.MethodGet, "/v1/pipelines/"+url.PathEscape(pipeline)+"/checkpoints", &l)
}

// TriggerCheckpoint makes a checkpoint now and waits until it is durable.
func (c *Client) TriggerCheckpoint(ctx context.Context, pipeline string) (i CheckpointInfo, err error) {
	return i, c.call(ctx, http.MethodPost, "/v1/pipelines/"+url.PathEscape(pipeline)+"/checkpoints", &i)
}

// Control stops, starts or restarts a pipeline.
func (c *Client) Control(ctx context.Context, pipeline, verb string) error {
	return c.call(ctx, http.MethodPost, "/v1/pipelines/"+url.PathEscape(pipeline)+"/"+verb, nil)
}

// Metrics copies the metrics in Prometheus text form.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	body, err := c.open(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

func (c *Client) call(ctx context.Context, method, path string, into any) error {
	body, err := c.open(ctx, method, path)
	return read(body, err, method, path, into)
}

// send posts v as JSON.
func (c *Client) send(ctx context.Context, path string, v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	body, err := c.ask(ctx, http.MethodPost, path, bytes.NewReader(b))
	return read(body, err, http.MethodPost, path, into)
}

func read(body io.ReadCloser, err error, method, path string, into any) error {
	if err != nil {
		return err
	}
	defer body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(into); ended(err) {
		return fmt.Errorf("%w: %s %s: %w", ErrEnded, method, path, err)
	} else if err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) open(ctx context.Context, method, path string) (io.ReadCloser, error) {
	return c.ask(ctx, method, path, nil)
}

func (c *Client) ask(ctx context.Context, method, path string, content io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w behind %s (start it with \"weir run\", or name its config with -c)", ErrNotRunning, c.socket)
	}
	if ended(err) {
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask agent: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e struct {
		Error string `json:"error"`
	}
	if json.NewDecoder(resp.Body).Decode(&e) != nil || e.Error == "" {
		e.Error = resp.Status
	}
	return nil, errors.New(e.Error)
}
