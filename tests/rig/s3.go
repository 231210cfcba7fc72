package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Keys of a test's S3 server.
const (
	S3Access = "access-1"
	S3Secret = "secret-1-secret"
)

// S3 is versitygw over a directory of its own, on a free loopback port. Its data survives Kill.
type S3 struct {
	Addr   string
	Bucket string
	// CredentialsFile holds the keys as sinks read them.
	CredentialsFile string

	dir, path string
	child     *Child
}

var s3Tool = sync.OnceValues(func() (string, error) { return Tool("versitygw") })

// StartS3 starts a server with one bucket, whose data lies in dir. The error is ErrNoTool where it cannot be built. The caller kills it.
func StartS3(dir, bucket string) (*S3, error) {
	path, err := s3Tool()
	if err != nil {
		return nil, err
	}
	s := &S3{Bucket: bucket, CredentialsFile: filepath.Join(dir, "credentials"), dir: dir, path: path}
	if err := s.MakeBucket(bucket); err != nil {
		return nil, err
	}
	if err := WriteS3Keys(s.CredentialsFile, S3Secret); err != nil {
		return nil, err
	}
	if s.Addr, err = FreeAddr(); err != nil {
		return nil, err
	}
	return s, s.Start()
}

// MakeBucket makes a bucket of the server's.
func (s *S3) MakeBucket(name string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "data", name), 0o755); err != nil {
		return fmt.Errorf("make bucket: %w", err)
	}
	return nil
}

// WriteS3Keys writes a credentials file with the test's access key and a secret.
func WriteS3Keys(file, secret string) error {
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", S3Access, secret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// Start starts the server again after Kill, on the same port.
func (s *S3) Start() (err error) {
	s.child, err = StartChild(filepath.Join(s.dir, "log"), nil, s.path, "--port", s.Addr, "--access", S3Access, "--secret", S3Secret, "--quiet",
		"posix", filepath.Join(s.dir, "data"))
	if err != nil {
		return err
	}
	if err := WaitListening(s.Addr, s.child); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.child.Kill()
		return fmt.Errorf("start versitygw: %w\n%s", err, log)
	}
	return nil
}

// Kill is kill -9.
func (s *S3) Kill() { s.child.Kill() }

func (s *S3) client() (*minio.Client, error) {
	c, err := minio.New(s.Addr, &minio.Options{Creds: credentials.NewStaticV4(S3Access, S3Secret, ""), Region: "us-east-1"})
	if err != nil {
		return nil, fmt.Errorf("connect to S3: %w", err)
	}
	return c, nil
}

// Remove removes an object, with a client of its own.
func (s *S3) Remove(ctx context.Context, name string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	return client.RemoveObject(ctx, s.Bucket, name, minio.RemoveObjectOptions{})
}

// Objects lists the bucket and gives every object below prefix, by its name, with a client of its own.
func (s *S3) Objects(ctx context.Context, prefix string) (map[string][]byte, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for o := range client.ListObjectsIter(ctx, s.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("list objects: %w", o.Err)
		}
		body, err := client.GetObject(ctx, s.Bucket, o.Key, minio.GetObjectOptions{})
		if err != nil {
			return nil, fmt.Errorf("get object %s: %w", o.Key, err)
		}
		b, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, fmt.Errorf("get object %s: %w", o.Key, err)
		}
		all[o.Key] = b
	}
	return all, nil
}

// NeedS3 starts a server that ends with the test, its data in dir. Where there is none, the test is skipped.
func NeedS3(t testing.TB, dir, bucket string) *S3 {
	t.Helper()
	far, err := StartS3(dir, bucket)
	if errors.Is(err, ErrNoTool) {
		t.Skipf("NOT TESTED against an S3 server: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Kill() })
	return far
}
