package blob

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// azure is a container of Azure Blob Storage, by its REST API. A blob is created with If-None-Match, by Put Blob or, after
// its blocks, by Put Block List.
type azure struct {
	name      name
	caller    caller
	container string // URL, without a query
}

// azureVersion is the version of the API.
const azureVersion = "2021-12-02"

func openAzure(_ context.Context, n name, u *url.URL) (driver, string, error) {
	account, err := azureAccountOf(n, os.Getenv, u.Query().Get("account"), u.Query().Get("endpoint"))
	if err != nil {
		return nil, "", err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	d := &azure{
		name:      n,
		caller:    caller{client, account.sign},
		container: strings.TrimSuffix(account.endpoint, "/") + "/" + u.Host,
	}
	return d, u.Path, nil
}

func (d *azure) close() error {
	d.caller.client.CloseIdleConnections()
	return nil
}

// blob returns the URL of an object.
func (d *azure) blob(key string) string { return d.container + "/" + key }

func (d *azure) put(ctx context.Context, key string, body []byte) error {
	return retry(ctx, func() (bool, error) {
		return d.create(ctx, key, request{
			method: http.MethodPut,
			url:    d.blob(key),
			header: map[string]string{"X-Ms-Blob-Type": "BlockBlob", "If-None-Match": "*"},
			body:   body,
		})
	})
}

// create sends a request that creates an object, and reports whether it can be sent again.
func (d *azure) create(ctx context.Context, key string, q request) (again bool, _ error) {
	traced, sent := traceSent(ctx)
	answer, err := d.caller.once(traced, q)
	if err == nil {
		_ = drain(answer)
		if answer.StatusCode >= 300 {
			return false, d.name.unknown(key, &refusal{status: answer.StatusCode})
		}
		return false, nil
	}
	switch r := refusalOf(err); {
	case r.code == "BlobAlreadyExists" || r.status == http.StatusPreconditionFailed:
		return false, d.name.exists(key)
	case r.status == http.StatusTooManyRequests || r.code == "ServerBusy":
		return true, d.name.unavailable(ctx, creating(key), err)
	case r.status > 0 && !isUnclear(r.status) || isDenied(err):
		return false, d.failed(ctx, creating(key), key, err)
	}
	return false, d.name.created(ctx, key, sent(), err)
}

// putParts sends the parts as blocks. Blocks of several creators are kept together, and the first of them that has its list
// accepted removes those of the others: so the names of blocks are random, and a list without blocks is that of a loser.
func (d *azure) putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) error {
	prefix, list := rand.Text(), &strings.Builder{}
	list.WriteString(xml.Header + "<BlockList>")
	n := 0
	for p, err := range parts {
		if err != nil {
			return err // the blocks are removed after a week
		}
		if len(p.data) == 0 {
			continue // a block has a byte
		}
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%05d", prefix, n))
		n++
		query := url.Values{"comp": {"block"}, "blockid": {id}}
		err = d.caller.discard(ctx, request{method: http.MethodPut, url: d.blob(key) + "?" + query.Encode(), body: p.data})
		if err != nil {
			return d.failed(ctx, creating(key), key, err)
		}
		list.WriteString("<Latest>" + id + "</Latest>")
	}
	list.WriteString("</BlockList>")
	_, err := d.create(ctx, key, request{
		method: http.MethodPut,
		url:    d.blob(key) + "?comp=blocklist",
		header: map[string]string{"If-None-Match": "*"},
		body:   []byte(list.String()),
	})
	if refusalOf(err).code == "InvalidBlockList" {
		if head := d.caller.discard(ctx, request{method: http.MethodHead, url: d.blob(key)}); head == nil {
			return d.name.exists(key)
		}
	}
	return err
}

// failed returns the error of a request that has created nothing.
func (d *azure) failed(ctx context.Context, op operation, key string, err error) error {
	switch r := refusalOf(err); {
	case isDenied(err):
		return d.name.denied(op, err)
	case r.code == "BlobNotFound":
		return d.name.notFound(key)
	case r.status == http.StatusNotFound:
		return d.name.noBucket(err)
	case r.status == http.StatusBadRequest:
		return d.name.invalid(err, "it could not %s: the service refuses the request", op)
	}
	return d.name.unavailable(ctx, op, err)
}

func (d *azure) get(ctx context.Context, key string, r Range) (*Reader, error) {
	q := request{method: http.MethodGet, url: d.blob(key)}
	if r != (Range{}) {
		q.header = map[string]string{"X-Ms-Range": r.header()}
	}
	answer, err := d.caller.repeat(ctx, q)
	if refusalOf(err).status == http.StatusRequestedRangeNotSatisfiable {
		answer, err = d.caller.repeat(ctx, request{method: http.MethodHead, url: d.blob(key)})
	}
	if err != nil {
		return nil, d.failed(ctx, reading(key), key, err)
	}
	size, err := wholeSize(answer.StatusCode, answer.Header)
	if err != nil {
		answer.Body.Close()
		return nil, d.name.unavailable(ctx, reading(key), err)
	}
	created, _ := http.ParseTime(answer.Header.Get("Last-Modified"))
	return newReader(Object{key, size, created}, r, answer.Body), nil
}

// azureList is an answer of List Blobs.
type azureList struct {
	Blobs []struct {
		Name       string
		Properties struct {
			Size         int64  `xml:"Content-Length"`
			Modified     string `xml:"Last-Modified"`
			ResourceType string // "directory" in an account with a hierarchical namespace
		}
	} `xml:"Blobs>Blob"`
	NextMarker string
}

// list reads all objects with the prefix up to after too: the version of the API has no other way.
func (d *azure) list(ctx context.Context, prefix, _ string, yield func(Object) bool) error {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}, "maxresults": {strconv.Itoa(page)}}
	for {
		objects, err := d.listPage(ctx, query)
		if err != nil {
			return d.failed(ctx, listing(prefix), "", err)
		}
		for _, o := range objects.Blobs {
			modified, _ := time.Parse(time.RFC1123, o.Properties.Modified)
			if o.Properties.ResourceType != "directory" && !yield(Object{o.Name, o.Properties.Size, modified}) {
				return nil
			}
		}
		if objects.NextMarker == "" {
			return nil
		}
		query.Set("marker", objects.NextMarker)
	}
}

func (d *azure) listPage(ctx context.Context, query url.Values) (objects azureList, err error) {
	answer, err := d.caller.repeat(ctx, request{method: http.MethodGet, url: d.container + "?" + query.Encode()})
	if err != nil {
		return azureList{}, err
	}
	defer answer.Body.Close()
	return objects, xml.NewDecoder(answer.Body).Decode(&objects)
}

func (d *azure) delete(ctx context.Context, key string) error {
	err := d.caller.discard(ctx, request{
		method: http.MethodDelete,
		url:    d.blob(key),
		header: map[string]string{"X-Ms-Delete-Snapshots": "include"},
	})
	if err == nil || refusalOf(err).code == "BlobNotFound" {
		return nil
	}
	return d.failed(ctx, deleting(key), key, err)
}

// errNoAccount is the cause of an URL without an account.
var errNoAccount = errors.New("neither the URL nor the environment names an account")
