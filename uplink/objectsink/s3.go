//go:build !nos3

package objectsink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink"
)

// bucket is a store in S3.
type bucket struct {
	config    *S3
	client    *minio.Client
	creds     *credentials.Credentials
	transport *http.Transport
	probed    int // parts of the question in prepare that were answered
}

func openS3(c *S3) (store, error) { return newS3(c) }

func newS3(c *S3) (*bucket, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("parse object sink endpoint: %w", err)
	}
	b := &bucket{config: c, creds: credentials.NewStaticV4("", "", "")}
	if c.CredentialsFile != "" {
		b.creds = credentials.NewFileAWSCredentials(c.CredentialsFile, "default")
	}
	dialer, proxy := &net.Dialer{Timeout: c.DialTimeout, KeepAlive: 30 * time.Second}, http.ProxyFromEnvironment
	if c.DenyPrivate {
		dialer.Control, proxy = uplink.DenyPrivate, nil
	}
	b.transport = &http.Transport{Proxy: proxy, DialContext: dialer.DialContext, TLSHandshakeTimeout: c.DialTimeout, MaxIdleConnsPerHost: 1,
		IdleConnTimeout: 90 * time.Second, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read object sink ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read object sink ca %s: no certificate in it", c.CAFile)
		}
		b.transport.TLSClientConfig.RootCAs = roots
	}
	region := c.Region
	if region == "" {
		region = "us-east-1" // else the library asks the endpoint
	}
	// One try: the sender repeats, and knows what it repeats.
	b.client, err = minio.New(u.Host, &minio.Options{Creds: b.creds, Secure: u.Scheme == "https", Transport: b.transport, Region: region, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("object sink %s: %w", c.Endpoint, err)
	}
	return b, nil
}

func (b *bucket) key(name string) string {
	if b.config.Prefix == "" {
		return name
	}
	return b.config.Prefix + "/" + name
}

// prepare asks once whether the endpoint honours conditions. What was answered is not asked again: on a bad link the next Open gets further.
func (b *bucket) prepare(ctx context.Context, dir string) error {
	name, body := dir+"_probe", []byte("weir asks whether conditional puts are honoured\n")
	for _, ask := range []func() error{
		func() error {
			return ignore(b.create(ctx, name, body), errExists)
		},
		func() error {
			err := b.create(ctx, name, body)
			if err == nil {
				return fmt.Errorf("%w: If-None-Match at %s", ErrUnconditional, b.config.Endpoint)
			}
			return ignore(err, errExists)
		},
		func() error {
			_, err := b.replace(ctx, name, "00000000000000000000000000000000", body)
			if err == nil {
				return fmt.Errorf("%w: If-Match at %s", ErrUnconditional, b.config.Endpoint)
			}
			return ignore(err, errChanged)
		},
	}[b.probed:] {
		if err := ask(); err != nil {
			return err
		}
		b.probed++
	}
	return nil
}

// ignore gives nil for the error that was hoped for.
func ignore(err, hoped error) error {
	if errors.Is(err, hoped) {
		return nil
	}
	return err
}

func (b *bucket) create(ctx context.Context, name string, body []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	_, err := b.put(ctx, name, body, o)
	if refusedBy(err) {
		return errExists
	}
	return err
}

func (b *bucket) replace(ctx context.Context, name, version string, body []byte) (string, error) {
	var o minio.PutObjectOptions
	if version == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(version)
	}
	etag, err := b.put(ctx, name, body, o)
	if refusedBy(err) || version != "" && errors.Is(err, fs.ErrNotExist) {
		return "", errChanged
	}
	return etag, err
}

func (b *bucket) put(ctx context.Context, name string, body []byte, o minio.PutObjectOptions) (string, error) {
	o.DisableMultipart, o.ContentType = true, "application/octet-stream"
	info, err := b.client.PutObject(ctx, b.config.Bucket, b.key(name), bytes.NewReader(body), int64(len(body)), o)
	if err != nil {
		return "", b.explain("put", name, err)
	}
	if info.ETag == "" {
		return "", fmt.Errorf("put %s to %s: the answer has no ETag, it is not S3's", name, b.config.Endpoint)
	}
	return info.ETag, nil
}

// readBytesMax bounds what is read: a batch is far smaller.
const readBytesMax = 128 << 20

func (b *bucket) read(ctx context.Context, name string) ([]byte, string, error) {
	o, err := b.client.GetObject(ctx, b.config.Bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	defer o.Close()
	body, err := io.ReadAll(io.LimitReader(o, readBytesMax))
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	info, err := o.Stat()
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	if info.ETag == "" {
		return nil, "", fmt.Errorf("get %s from %s: the answer has no ETag, it is not S3's", name, b.config.Endpoint)
	}
	return body, info.ETag, nil
}

func (b *bucket) list(ctx context.Context, dir string) (all []listed, err error) {
	prefix := b.key(dir)
	for o := range b.client.ListObjectsIter(ctx, b.config.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.explain("list", dir, o.Err)
		}
		all = append(all, listed{strings.TrimPrefix(o.Key, prefix), o.Size})
	}
	return all, nil
}

func (b *bucket) close() { b.transport.CloseIdleConnections() }

// refusedBy is a condition that did not hold.
func refusedBy(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && r.StatusCode == http.StatusPreconditionFailed
}

// explain names what the endpoint said, and what to do. Keys that were refused are read from their file again.
func (b *bucket) explain(verb, name string, err error) error {
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchKey":
		return fmt.Errorf("%s %s: %w", verb, name, fs.ErrNotExist)
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		b.creds.Expire()
	}
	if r.Code != "" {
		err = fmt.Errorf("%s: %w", r.Code, err)
	}
	err = fmt.Errorf("%s object in bucket %s at %s: %w%s", verb, b.config.Bucket, b.config.Endpoint, err, b.advice(&r, err))
	if r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusTooManyRequests {
		return &uplink.RetryAfter{Wait: time.Second, Err: err}
	}
	return err
}

// advice tells what to do, "" when waiting is all.
func (b *bucket) advice(r *minio.ErrorResponse, err error) string {
	switch {
	case r.Code == "NoSuchBucket":
		return "; the sink does not make it: make it there"
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		return "; see credentials_file (it is read again) and what its key may do in the bucket"
	case r.StatusCode == http.StatusInsufficientStorage || strings.Contains(r.Code, "StorageFull") || strings.Contains(r.Code, "QuotaExceeded"):
		return "; make room there: nothing is lost here meanwhile"
	}
	return suggest.Certificate(err, "give its CA in ca")
}
