//go:build !nos3

package bucket

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// inS3 is a Bucket in S3.
type inS3 struct {
	config    *S3
	client    *minio.Client
	creds     *credentials.Credentials
	transport *http.Transport
	clock     *skew
	probed    int // parts of the question in Prepare that were answered
}

// idleMax is how many connections are kept for the next request: as many as a reader that asks ahead uses at once, else each of its requests would pay for a handshake.
const idleMax = 16

// OpenS3 gives the bucket. It connects at the first request.
func OpenS3(c *S3) (Bucket, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("parse S3 endpoint: %w", err)
	}
	b := &inS3{config: c, creds: credentials.NewStaticV4("", "", "")}
	if c.CredentialsFile != "" {
		b.creds = credentials.NewFileAWSCredentials(c.CredentialsFile, "default")
	}
	dialer, proxy := &net.Dialer{Timeout: c.DialTimeout, KeepAlive: 30 * time.Second}, http.ProxyFromEnvironment
	if c.DenyPrivate {
		dialer.Control, proxy = uplink.DenyPrivate, nil
	}
	b.transport = &http.Transport{Proxy: proxy, DialContext: dialer.DialContext, TLSHandshakeTimeout: c.DialTimeout, MaxIdleConnsPerHost: idleMax,
		IdleConnTimeout: 90 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: headerBytesMax, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read S3 ca: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read S3 ca %s: no certificate in it", c.CAFile)
		}
		b.transport.TLSClientConfig.RootCAs = roots
	}
	c.Dates.Judge(b.transport.TLSClientConfig, u.Hostname())
	region := c.Region
	if region == "" {
		region = "us-east-1" // else the library asks the endpoint
	}
	b.clock = &skew{next: bounded{b.transport}}
	// One try: the caller repeats, and knows what it repeats.
	b.client, err = minio.New(u.Host, &minio.Options{Creds: b.creds, Secure: u.Scheme == "https", Transport: b.clock, Region: region, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint %s: %w", c.Endpoint, err)
	}
	return b, nil
}

func (b *inS3) key(name string) string {
	if b.config.Prefix == "" {
		return name
	}
	return b.config.Prefix + "/" + name
}

// Prepare asks once whether the endpoint honours conditions. What was answered is not asked again: on a bad link the next call gets further.
func (b *inS3) Prepare(ctx context.Context, dir string) error {
	name, body := dir+"_probe", []byte("weir asks whether conditional puts are honoured\n")
	for _, ask := range []func() error{
		func() error {
			return ignore(b.Create(ctx, name, body), ErrExists)
		},
		func() error {
			err := b.Create(ctx, name, body)
			if err == nil {
				return fmt.Errorf("%w: If-None-Match at %s", ErrUnconditional, b.config.Endpoint)
			}
			return ignore(err, ErrExists)
		},
		func() error {
			_, err := b.Replace(ctx, name, "00000000000000000000000000000000", body)
			if err == nil {
				return fmt.Errorf("%w: If-Match at %s", ErrUnconditional, b.config.Endpoint)
			}
			return ignore(err, ErrChanged)
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

// Create relies on If-None-Match: *.
func (b *inS3) Create(ctx context.Context, name string, body []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	_, err := b.put(ctx, name, body, o)
	if refusedBy(err) {
		return ErrExists
	}
	return err
}

// Put has no condition.
func (b *inS3) Put(ctx context.Context, name string, body []byte) error {
	_, err := b.put(ctx, name, body, minio.PutObjectOptions{})
	return err
}

// Replace relies on If-Match.
func (b *inS3) Replace(ctx context.Context, name, version string, body []byte) (string, error) {
	var o minio.PutObjectOptions
	if version == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(version)
	}
	etag, err := b.put(ctx, name, body, o)
	if refusedBy(err) || version != "" && errors.Is(err, ErrNotFound) {
		return "", ErrChanged
	}
	return etag, err
}

func (b *inS3) put(ctx context.Context, name string, body []byte, o minio.PutObjectOptions) (string, error) {
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

// Get reads a whole object.
func (b *inS3) Get(ctx context.Context, name string) ([]byte, string, error) {
	return b.GetNewer(ctx, name, "")
}

// GetNewer relies on If-None-Match; an endpoint that ignores it answers with the body, which is as right and costs more.
func (b *inS3) GetNewer(ctx context.Context, name, version string) ([]byte, string, error) {
	var options minio.GetObjectOptions
	if version != "" {
		if err := options.SetMatchETagExcept(version); err != nil {
			return nil, "", fmt.Errorf("get %s: version %q: %w", name, version, err)
		}
	}
	o, err := b.client.GetObject(ctx, b.config.Bucket, b.key(name), options)
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	defer o.Close()
	most := BytesMaxOf(ctx)
	body, err := io.ReadAll(io.LimitReader(o, most+1))
	if version != "" && minio.ToErrorResponse(err).StatusCode == http.StatusNotModified {
		return nil, "", fmt.Errorf("get %s: %w", name, ErrUnchanged)
	}
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	if int64(len(body)) > most {
		return nil, "", fmt.Errorf("get %s: more than %d bytes: %w", name, most, ErrTooLarge)
	}
	info, err := o.Stat()
	if err != nil {
		return nil, "", b.explain("get", name, err)
	}
	if info.ETag == "" {
		return nil, "", fmt.Errorf("get %s from %s: the answer has no ETag, it is not S3's", name, b.config.Endpoint)
	}
	if version != "" && info.ETag == version {
		return nil, "", fmt.Errorf("get %s: %w", name, ErrUnchanged)
	}
	return body, info.ETag, nil
}

// List asks for one page.
func (b *inS3) List(ctx context.Context, prefix, after string) (all []Object, err error) {
	o := minio.ListObjectsOptions{Prefix: b.key(prefix), Recursive: true, MaxKeys: PageMax}
	if after != "" {
		o.StartAfter = b.key(after)
	}
	cut := len(b.key(""))
	for o := range b.client.ListObjectsIter(ctx, b.config.Bucket, o) {
		if o.Err != nil {
			return nil, b.explain("list", prefix, o.Err)
		}
		if len(o.Key) < cut {
			return nil, fmt.Errorf("list %s at %s: the answer holds %q, it is not S3's", prefix, b.config.Endpoint, o.Key)
		}
		if all = append(all, Object{o.Key[cut:], o.Size, o.LastModified.UnixMilli()}); len(all) == PageMax {
			break
		}
	}
	return all, ctx.Err()
}

// Delete removes up to 1000 objects by a request.
func (b *inS3) Delete(ctx context.Context, names ...string) error {
	results, err := b.client.RemoveObjectsWithIter(ctx, b.config.Bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, name := range names {
			if !yield(minio.ObjectInfo{Key: b.key(name)}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return b.explain("delete", "", err)
	}
	for r := range results {
		if r.Err != nil && minio.ToErrorResponse(r.Err).Code != "NoSuchKey" {
			err = errors.Join(err, b.explain("delete", r.ObjectName, r.Err))
		}
	}
	return errors.Join(err, ctx.Err())
}

// Close drops idle connections.
func (b *inS3) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// refusedBy is a condition that did not hold.
func refusedBy(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && r.StatusCode == http.StatusPreconditionFailed
}

// explain names what the endpoint said, and what to do. Keys that were refused are read from their file again.
func (b *inS3) explain(verb, name string, err error) error {
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchKey":
		return fmt.Errorf("%s %s: %w", verb, name, ErrNotFound)
	case b.clock.refuses(r.Code, r.StatusCode):
		return fmt.Errorf("%s object in bucket %s at %s: %w: %s; set the clock (%s: %w)", verb, b.config.Bucket, b.config.Endpoint, ErrSkewed, b.clock, r.Code, err)
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		b.creds.Expire()
	}
	if r.Code != "" {
		err = fmt.Errorf("%s: %w", r.Code, err)
	}
	if errors.Is(err, ErrNotFound) { // a file of this machine is missing, as the one with the keys: it says nothing of what the bucket holds
		err = errors.New(err.Error())
	}
	err = fmt.Errorf("%s object in bucket %s at %s: %w%s", verb, b.config.Bucket, b.config.Endpoint, err, b.advice(&r, err))
	if r.StatusCode == http.StatusServiceUnavailable || r.StatusCode == http.StatusTooManyRequests {
		return &uplink.RetryAfter{Wait: time.Second, Err: err}
	}
	return err
}

// advice tells what to do, "" when waiting is all.
func (b *inS3) advice(r *minio.ErrorResponse, err error) string {
	switch {
	case r.Code == "NoSuchBucket":
		return "; weir does not make it: make it there"
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		return "; see credentials_file (it is read again) and what its key may do in the bucket"
	case r.StatusCode == http.StatusInsufficientStorage || strings.Contains(r.Code, "StorageFull") || strings.Contains(r.Code, "QuotaExceeded"):
		return "; make room there: nothing is lost here meanwhile"
	}
	if f := b.config.CredentialsFile; f != "" {
		if _, missing := os.Stat(f); missing != nil {
			return "; credentials_file " + f + " cannot be read: put the keys there (it is read again)"
		}
	}
	return suggest.Certificate(err, "give its CA in ca")
}
