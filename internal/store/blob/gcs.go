package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// gcs is a bucket of Google Cloud Storage, by its JSON API. An object is created with ifGenerationMatch=0: at once, or by the
// last request of a resumable upload. The multipart uploads of the XML API, which clients of S3 use, have no such condition.
type gcs struct {
	name   name
	caller caller
	base   string // URL of the service
	bucket string
}

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

func openGCS(ctx context.Context, n name, u *url.URL) (driver, string, error) {
	d := &gcs{name: n, base: "https://storage.googleapis.com", bucket: u.Host}
	client := &http.Client{}
	if emulator := os.Getenv("STORAGE_EMULATOR_HOST"); emulator != "" { // as for Google's libraries
		d.base = emulator
		if !strings.Contains(emulator, "://") {
			d.base = "http://" + emulator
		}
	} else {
		found, err := google.FindDefaultCredentials(ctx, gcsScope)
		if err != nil {
			return nil, "", n.denied("use Google's credentials", err)
		}
		client = oauth2.NewClient(context.WithoutCancel(ctx), found.TokenSource)
	}
	if endpoint := u.Query().Get("endpoint"); endpoint != "" {
		d.base = strings.TrimSuffix(endpoint, "/")
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // 308 is an answer
	d.caller = caller{client: client}
	return d, u.Path, nil
}

func (d *gcs) close() error {
	d.caller.client.CloseIdleConnections()
	return nil
}

// object returns the URL of an object.
func (d *gcs) object(key string) string { return d.objects() + "/" + url.PathEscape(key) }

func (d *gcs) objects() string { return d.base + "/storage/v1/b/" + d.bucket + "/o" }

// upload returns the URL of a request that creates an object, unless it exists.
func (d *gcs) upload(kind, key string) string {
	query := url.Values{"uploadType": {kind}, "name": {key}, "ifGenerationMatch": {"0"}}
	return d.base + "/upload/storage/v1/b/" + d.bucket + "/o?" + query.Encode()
}

func (d *gcs) put(ctx context.Context, key string, body []byte) error {
	q := request{
		method: http.MethodPost,
		url:    d.upload("media", key),
		header: map[string]string{"Content-Type": "application/octet-stream"},
		body:   body,
	}
	return retry(ctx, func() (bool, error) { return d.create(ctx, key, q) })
}

// create sends a request that creates an object, and reports whether it can be sent again.
func (d *gcs) create(ctx context.Context, key string, q request) (again bool, _ error) {
	traced, sent := traceSent(ctx)
	answer, err := d.caller.once(traced, q)
	if err == nil {
		status := answer.StatusCode
		_ = drain(answer)
		if status >= 300 {
			return false, d.name.unknown(key, &refusal{status: status})
		}
		return false, nil
	}
	switch status := refusalOf(err).status; {
	case status == http.StatusPreconditionFailed:
		return false, d.name.exists(key)
	case status == http.StatusTooManyRequests:
		return true, d.name.unavailable(ctx, creating(key), err)
	case status > 0 && !isUnclear(status) || isDenied(err):
		return false, d.failed(ctx, creating(key), err)
	}
	return false, d.name.created(ctx, key, sent(), err)
}

// putParts sends the parts in a resumable upload. The request that has the size of the object creates it.
func (d *gcs) putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) (err error) {
	answer, err := d.caller.repeat(ctx, request{method: http.MethodPost, url: d.upload("resumable", key)})
	if refusalOf(err).status == http.StatusPreconditionFailed {
		return d.name.exists(key)
	} else if err != nil {
		return d.failed(ctx, creating(key), err)
	}
	_ = drain(answer)
	session := answer.Header.Get("Location")
	defer func() {
		if err != nil && !errors.Is(err, ErrUnknown) {
			ctx, cancel := abortContext(ctx)
			defer cancel()
			_ = d.caller.discard(ctx, request{method: http.MethodDelete, url: session}) // or it expires, after a week
		}
	}()
	offset := int64(0)
	for p, err := range parts {
		if err != nil {
			return err
		}
		if p.last {
			total := offset + int64(len(p.data))
			q := request{method: http.MethodPut, url: session, header: contentRange(offset, total, strconv.FormatInt(total, 10)),
				body: p.data}
			_, err := d.create(ctx, key, q)
			return err
		}
		if err := d.putChunk(ctx, session, offset, p.data); err != nil {
			return d.failed(ctx, creating(key), err)
		}
		offset += int64(len(p.data))
	}
	return nil
}

// putChunk sends a part that is not the last. The service may store only the begin of it.
func (d *gcs) putChunk(ctx context.Context, session string, offset int64, data []byte) error {
	for end := offset + int64(len(data)); offset < end; {
		rest := data[len(data)-int(end-offset):]
		answer, err := d.caller.repeat(ctx, request{method: http.MethodPut, url: session, header: contentRange(offset, end, "*"),
			body: rest})
		if err != nil {
			return err
		}
		_ = drain(answer)
		_, last, _ := strings.Cut(answer.Header.Get("Range"), "-")
		stored, err := strconv.ParseInt(last, 10, 64)
		if answer.StatusCode != http.StatusPermanentRedirect || err != nil || stored < offset || stored >= end {
			return fmt.Errorf("a part up to byte %d was answered with status %d and the range end %q", end, answer.StatusCode, last)
		}
		offset = stored + 1
	}
	return nil
}

// contentRange returns the header of a part of an object of a total size, "*" if it is not known.
func contentRange(begin, end int64, total string) map[string]string {
	if begin == end {
		return map[string]string{"Content-Range": "bytes */" + total}
	}
	return map[string]string{"Content-Range": fmt.Sprintf("bytes %d-%d/%s", begin, end-1, total)}
}

// isDenied reports whether credentials are missing or do not suffice.
func isDenied(err error) bool {
	status := refusalOf(err).status
	return status == http.StatusForbidden || status == http.StatusUnauthorized ||
		errors.As(err, new(noCredentials)) || errors.As(err, new(*oauth2.RetrieveError))
}

// failed returns the error of a request that has created nothing.
func (d *gcs) failed(ctx context.Context, op operation, err error) error {
	switch status := refusalOf(err).status; {
	case isDenied(err):
		return d.name.denied(op, err)
	case status == http.StatusNotFound:
		return d.name.noBucket(err)
	case status == http.StatusBadRequest:
		return d.name.invalid(err, "it could not %s: the service refuses the request", op)
	}
	return d.name.unavailable(ctx, op, err)
}

// notFound returns the error of an object that does not exist, if its bucket does.
func (d *gcs) notFound(ctx context.Context, op operation, key string) error {
	if err := d.caller.discard(ctx, request{method: http.MethodGet, url: d.objects() + "?maxResults=1"}); err != nil {
		return d.failed(ctx, op, err)
	}
	return d.name.notFound(key)
}

func (d *gcs) get(ctx context.Context, key string, r Range) (*Reader, error) {
	q := request{method: http.MethodGet, url: d.object(key) + "?alt=media"}
	if r != (Range{}) {
		q.header = map[string]string{"Range": r.header()}
	}
	answer, err := d.caller.repeat(ctx, q)
	switch refusalOf(err).status {
	case http.StatusNotFound:
		return nil, d.notFound(ctx, reading(key), key)
	case http.StatusRequestedRangeNotSatisfiable:
		return d.describe(ctx, key)
	}
	if err != nil {
		return nil, d.failed(ctx, reading(key), err)
	}
	size, err := wholeSize(answer.StatusCode, answer.Header)
	if err != nil {
		answer.Body.Close()
		return nil, d.name.unavailable(ctx, reading(key), err)
	}
	created, _ := http.ParseTime(answer.Header.Get("Last-Modified"))
	return newReader(Object{key, size, created}, r, answer.Body), nil
}

// describe returns a reader of no bytes of an object.
func (d *gcs) describe(ctx context.Context, key string) (*Reader, error) {
	var o gcsObject
	if err := d.decode(ctx, d.object(key), &o); err != nil {
		return nil, d.failed(ctx, reading(key), err)
	}
	return &Reader{Object{key, o.Size, o.TimeCreated}, http.NoBody}, nil
}

type gcsObject struct {
	Name        string
	Size        int64 `json:",string"`
	TimeCreated time.Time
}

// decode reads an answer in JSON.
func (d *gcs) decode(ctx context.Context, url string, into any) error {
	answer, err := d.caller.repeat(ctx, request{method: http.MethodGet, url: url})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

func (d *gcs) list(ctx context.Context, prefix, after string, yield func(Object) bool) error {
	query := url.Values{
		"prefix":     {prefix},
		"maxResults": {strconv.Itoa(page)},
		"fields":     {"items(name,size,timeCreated),nextPageToken"},
	}
	if after != "" {
		query.Set("startOffset", after)
	}
	for {
		var objects struct {
			Items         []gcsObject
			NextPageToken string
		}
		if err := d.decode(ctx, d.objects()+"?"+query.Encode(), &objects); err != nil {
			return d.failed(ctx, listing(prefix), err)
		}
		for _, o := range objects.Items {
			if !yield(Object{o.Name, o.Size, o.TimeCreated}) {
				return nil
			}
		}
		if objects.NextPageToken == "" {
			return nil
		}
		query.Set("pageToken", objects.NextPageToken)
	}
}

func (d *gcs) delete(ctx context.Context, key string) error {
	err := d.caller.discard(ctx, request{method: http.MethodDelete, url: d.object(key)})
	if refusalOf(err).status == http.StatusNotFound {
		if err = d.notFound(ctx, deleting(key), key); fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	if err != nil {
		return d.failed(ctx, deleting(key), err)
	}
	return nil
}
