package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Influx is influxd in a directory of its own, on a free loopback port. What it answered survives Kill.
type Influx struct {
	Addr string

	dir, path string
	child     *Child
}

// InfluxBucket is the database that a test's server has.
const InfluxBucket = "b"

var influxTool = sync.OnceValues(InfluxDB)

// influxConfig: one compaction at a time and no statistics of its own, which would cost the tests memory.
const influxConfig = `reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "%[1]s/meta"
[data]
dir = "%[1]s/data"
wal-dir = "%[1]s/wal"
query-log-enabled = false
max-concurrent-compactions = 1
[monitor]
store-enabled = false
[http]
bind-address = "%[2]s"
log-enabled = false
`

// StartInflux starts a server that keeps its points in dir, with one empty database. The error is ErrNoTool where it cannot be built. The caller
// kills it.
func StartInflux(dir string) (*Influx, error) {
	n, err := NewInflux(dir, "")
	if err == nil {
		err = n.Start()
	}
	if err == nil {
		err = n.MakeBucket()
	}
	return n, err
}

// NewInflux prepares a server without starting it; extra lines are added to its settings of http.
func NewInflux(dir, extra string) (*Influx, error) {
	path, err := influxTool()
	if err != nil {
		return nil, err
	}
	n := &Influx{dir: dir, path: path}
	if n.Addr, err = FreeAddr(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "conf"), fmt.Appendf(nil, influxConfig+extra, dir, n.Addr), 0o600); err != nil {
		return nil, fmt.Errorf("configure influxd: %w", err)
	}
	return n, nil
}

// MakeBucket makes the database that sinks write to; one that is there stays.
func (n *Influx) MakeBucket() error {
	_, err := n.Query("CREATE DATABASE " + InfluxBucket)
	return err
}

// Start starts the server, also again after Kill, on the same port.
func (n *Influx) Start() (err error) {
	if n.child, err = StartChild(filepath.Join(n.dir, "log"), nil, n.path, "run", "-config", filepath.Join(n.dir, "conf")); err != nil {
		return err
	}
	if err := WaitListening(n.Addr, n.child); err != nil {
		log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		n.child.Kill()
		return fmt.Errorf("start influxd: %w\n%s", err, log)
	}
	return nil
}

// Kill is kill -9.
func (n *Influx) Kill() { n.child.Kill() }

// Query asks the server in its own language, again while it does not answer; each row begins with the time in ns, numbers are json.Number.
func (n *Influx) Query(text string) (rows [][]any, err error) {
	for deadline := time.Now().Add(Patience); ; time.Sleep(pollEvery) {
		if rows, err = n.query(text); err == nil || errors.Is(err, errInflux) || time.Now().After(deadline) {
			return rows, err
		}
	}
}

func (n *Influx) query(text string) (rows [][]any, err error) {
	client := http.Client{Timeout: Patience}
	resp, err := client.Post("http://"+n.Addr+"/query?"+url.Values{"db": {InfluxBucket}, "epoch": {"ns"}, "q": {text}}.Encode(), "", nil)
	if err != nil {
		return nil, fmt.Errorf("query influxd: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Error   string
		Results []struct {
			Error  string
			Series []struct{ Values [][]any }
		}
	}
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("query influxd: %w", err)
	}
	if answer.Error != "" || len(answer.Results) == 0 || answer.Results[0].Error != "" {
		return nil, fmt.Errorf("query influxd: %w: %+v", errInflux, answer)
	}
	for _, s := range answer.Results[0].Series {
		rows = append(rows, s.Values...)
	}
	return rows, nil
}

var errInflux = errors.New("influxd refuses")
