package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a bucket of S3, or of a server with its API. An object is created with If-None-Match: at once, or by the
// request that completes a multipart upload.
type s3 struct {
	name   name
	bucket string
	// once sends each request once: a second try of a create whose answer was lost would find its own object.
	once *minio.Core
	core *minio.Core // for requests that can be repeated
}

func openS3(_ context.Context, n name, u *url.URL) (driver, string, error) {
	if strings.HasSuffix(u.Host, "--x-s3") {
		return nil, "", n.invalid(nil, "directory buckets of S3 Express list without order; use a bucket of another kind")
	}
	endpoint, secure, err := s3Endpoint(n, u.Query().Get("endpoint"))
	if err != nil {
		return nil, "", err
	}
	options := minio.Options{
		Secure: secure,
		Region: firstOf(u.Query().Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{},
			&credentials.IAM{},
		}),
	}
	switch style := u.Query().Get("path_style"); style {
	case "true":
		options.BucketLookup = minio.BucketLookupPath
	case "false":
		options.BucketLookup = minio.BucketLookupDNS
	case "":
	default:
		return nil, "", n.invalid(nil, "path_style is %q; use true or false", style)
	}
	d := &s3{name: n, bucket: u.Host}
	options.MaxRetries = maxTries
	if d.core, err = minio.NewCore(endpoint, &options); err != nil {
		return nil, "", n.invalid(err, "its endpoint is not usable")
	}
	options.MaxRetries = 1
	if d.once, err = minio.NewCore(endpoint, &options); err != nil {
		return nil, "", n.invalid(err, "its endpoint is not usable")
	}
	return d, u.Path, nil
}

// s3Endpoint returns the host and port of an endpoint, and whether it uses TLS.
func s3Endpoint(n name, endpoint string) (host string, secure bool, err error) {
	if endpoint == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return "", false, n.invalid(nil, "its endpoint must be a URL such as https://s3.example.com, without credentials")
	}
	return u.Host, u.Scheme == "https", nil
}

// firstOf returns the first value that is not empty.
func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (d *s3) close() error { return nil }

func (d *s3) put(ctx context.Context, key string, body []byte) error {
	sum := sha256.Sum256(body)
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return retry(ctx, func() (bool, error) {
		traced, sent := traceSent(ctx)
		_, err := d.once.PutObject(traced, d.bucket, key, bytes.NewReader(body), int64(len(body)), "", hex.EncodeToString(sum[:]), o)
		return d.created(ctx, key, sent(), err)
	})
}

func (d *s3) putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) (err error) {
	id, err := d.core.NewMultipartUpload(ctx, d.bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return d.failed(ctx, creating(key), key, err)
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrUnknown) {
			ctx, cancel := abortContext(ctx)
			defer cancel()
			_ = d.core.AbortMultipartUpload(ctx, d.bucket, key, id) // parts that remain are removed by a rule of the bucket
		}
	}()
	var complete []minio.CompletePart
	for p, err := range parts {
		if err != nil {
			return err
		}
		sum := sha256.Sum256(p.data)
		done, err := d.core.PutObjectPart(ctx, d.bucket, key, id, len(complete)+1, bytes.NewReader(p.data), int64(len(p.data)),
			minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:])})
		if err != nil {
			return d.failed(ctx, creating(key), key, err)
		}
		complete = append(complete, minio.CompletePart{PartNumber: done.PartNumber, ETag: done.ETag})
	}
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	traced, sent := traceSent(ctx)
	_, err = d.once.CompleteMultipartUpload(traced, d.bucket, key, id, complete, o)
	_, err = d.created(ctx, key, sent(), err) // after a conflict, S3 wants all parts again
	return err
}

// refusedForNow lists the errors of requests that S3 has not carried out. Another 503 can come from a proxy that does not know.
var refusedForNow = []string{"ConditionalRequestConflict", "OperationAborted", "SlowDown"}

// created returns the error of a request that creates an object, and whether it can be sent again.
func (d *s3) created(ctx context.Context, key string, sent bool, err error) (again bool, _ error) {
	if err == nil {
		return false, nil
	}
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == minio.PreconditionFailed || r.StatusCode == http.StatusPreconditionFailed:
		return false, d.name.exists(key)
	case r.StatusCode == http.StatusTooManyRequests || slices.Contains(refusedForNow, r.Code):
		return true, d.name.unavailable(ctx, creating(key), err)
	case r.StatusCode >= 300 && !isUnclear(r.StatusCode):
		return false, d.failed(ctx, creating(key), key, err)
	default: // no answer, half of one, or an error in an answer that began as a success
		return false, d.name.created(ctx, key, sent, err)
	}
}

// failed returns the error of a request that has created nothing.
func (d *s3) failed(ctx context.Context, op operation, key string, err error) error {
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == minio.NoSuchBucket:
		return d.name.noBucket(err)
	case r.Code == minio.NoSuchKey:
		return d.name.notFound(key)
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized,
		r.Code == "ExpiredToken" || r.Code == "InvalidToken":
		return d.name.denied(op, err)
	case r.StatusCode == http.StatusNotImplemented:
		return d.name.invalid(err, "it could not %s: the server does not implement this request", op)
	case r.StatusCode >= 300 && r.StatusCode < 400 || r.Code == minio.AuthorizationHeaderMalformed:
		return d.name.invalid(err, "it could not %s: it is in another region", op)
	case r.StatusCode == http.StatusBadRequest:
		return d.name.invalid(err, "it could not %s: the server refuses the request", op)
	}
	return d.name.unavailable(ctx, op, err)
}

func (d *s3) get(ctx context.Context, key string, r Range) (*Reader, error) {
	var o minio.GetObjectOptions
	if r != (Range{}) {
		o.Set("Range", r.header())
	}
	body, info, header, err := d.core.GetObject(ctx, d.bucket, key, o)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		info, err = d.core.StatObject(ctx, d.bucket, key, minio.StatObjectOptions{})
		body = http.NoBody
	}
	if err != nil {
		return nil, d.failed(ctx, reading(key), key, err)
	}
	object := Object{key, info.Size, info.LastModified}
	if ranged := header.Get("Content-Range"); ranged != "" {
		if object.Size, err = wholeSize(http.StatusPartialContent, header); err != nil {
			body.Close()
			return nil, d.name.unavailable(ctx, reading(key), err)
		}
	}
	return newReader(object, r, body), nil
}

func (d *s3) list(ctx context.Context, prefix, after string, yield func(Object) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range d.core.ListObjectsIter(ctx, d.bucket, minio.ListObjectsOptions{Prefix: prefix, StartAfter: after, Recursive: true}) {
		if o.Err != nil {
			return d.failed(ctx, listing(prefix), "", o.Err)
		}
		if !yield(Object{o.Key, o.Size, o.LastModified}) {
			return nil
		}
	}
	if ctx.Err() != nil { // the iterator ends without an error
		return d.name.unavailable(ctx, listing(prefix), context.Cause(ctx))
	}
	return nil
}

func (d *s3) delete(ctx context.Context, key string) error {
	err := d.core.RemoveObject(ctx, d.bucket, key, minio.RemoveObjectOptions{})
	if err == nil || minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil
	}
	return d.failed(ctx, deleting(key), key, err)
}
