package blob

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgres is a pair of tables: one row per object, with the body of an object of one part, and the other parts. A row
// is created by INSERT … ON CONFLICT DO NOTHING.
//
// pgconn is the protocol of pgx without its conversions of types, which are three quarters of the code and not used.
type postgres struct {
	name  name
	table string
	pool  *pgPool
}

// rowSize is the size of the rows of a large object. pgconn copies a row several times, and partSize is a multiple.
const rowSize = 1 << 20

// tableName matches the names of tables that need no quotes.
var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,50}$`)

func openPostgres(ctx context.Context, n name, u *url.URL) (driver, string, error) {
	query := u.Query()
	table := firstOf(query.Get("table"), "sandpiper_objects")
	if !tableName.MatchString(table) {
		return nil, "", n.invalid(nil, "table is %.60q; use up to 51 of a-z, 0-9 and _", table)
	}
	prefix := query.Get("prefix")
	dsn := *u
	query.Del("table")
	query.Del("prefix")
	dsn.RawQuery = query.Encode()
	config, err := pgconn.ParseConfig(dsn.String())
	if err != nil {
		return nil, "", n.invalid(nil, "the URL is not usable for PostgreSQL") // the cause can have the password
	}
	if config.ValidateConnect == nil { // a standby lists objects late
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.AfterConnect = waitForDisk
	d := &postgres{name: n, table: table, pool: newPGPool(config)}
	if err := d.createTables(ctx); err != nil {
		d.close()
		return nil, "", d.failed(ctx, "open the tables", err)
	}
	return d, prefix, nil
}

// waitForDisk lets commits return when they are on disk, if the server or the user is configured otherwise.
func waitForDisk(ctx context.Context, c *pgconn.PgConn) error {
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') IN ('off', 'local')`).ReadAll()
	return err
}

// createTables creates the tables if they do not exist. A lock lets processes do so one after the other.
func (d *postgres) createTables(ctx context.Context) error {
	return d.pool.use(ctx, func(c *pgconn.PgConn) error {
		found, err := query(ctx, c, `SELECT to_regclass($1) IS NOT NULL`, text(d.table+"_parts"))
		if err != nil || found[0][0][0] == 1 {
			return err
		}
		_, err = c.Exec(ctx, strings.ReplaceAll(`BEGIN;
SELECT pg_advisory_xact_lock(hashtext('NAME'));
CREATE TABLE IF NOT EXISTS NAME (
	key text COLLATE "C" PRIMARY KEY,
	size bigint NOT NULL,
	created timestamptz NOT NULL DEFAULT clock_timestamp(),
	body bytea, -- of an object of one part
	parts text -- the id of the parts of another object
);
CREATE TABLE IF NOT EXISTS NAME_parts (id text, n int, body bytea NOT NULL, PRIMARY KEY (id, n));
ALTER TABLE NAME ALTER body SET STORAGE EXTERNAL;
ALTER TABLE NAME_parts ALTER body SET STORAGE EXTERNAL;
COMMIT`, "NAME", d.table)).ReadAll()
		return err
	})
}

func (d *postgres) close() error { return d.pool.close() }

func (d *postgres) put(ctx context.Context, key string, body []byte) error {
	return retry(ctx, func() (bool, error) {
		taken := false
		err := d.pool.use(ctx, func(c *pgconn.PgConn) error {
			result := c.ExecParams(ctx, `INSERT INTO `+d.table+` (key, size, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				[][]byte{text(key), number(int64(len(body))), notNil(body)}, nil, []int16{0, 0, 1}, nil).Read()
			taken = result.Err == nil && result.CommandTag.RowsAffected() == 0
			return result.Err
		})
		if taken {
			return false, d.name.exists(key)
		}
		return d.created(ctx, key, err)
	})
}

func (d *postgres) putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) error {
	err := d.pool.use(ctx, func(c *pgconn.PgConn) error {
		if _, err := c.Exec(ctx, "BEGIN").ReadAll(); err != nil {
			return d.failed(ctx, creating(key), err)
		}
		committed := false
		defer func() {
			if !committed {
				ctx, cancel := abortContext(ctx)
				defer cancel()
				_, _ = c.Exec(ctx, "ROLLBACK").ReadAll() // of a closed connection, the server does it
			}
		}()
		id, size, n := text(rand.Text()), int64(0), int64(0)
		for p, err := range parts {
			if err != nil {
				return err
			}
			for row := range slices.Chunk(p.data, rowSize) {
				err = c.ExecParams(ctx, `INSERT INTO `+d.table+`_parts VALUES ($1, $2, $3)`,
					[][]byte{id, number(n), row}, nil, []int16{0, 0, 1}, nil).Read().Err
				if err != nil {
					return d.failed(ctx, creating(key), err)
				}
				n++
			}
			size += int64(len(p.data))
		}
		result := c.ExecParams(ctx, `INSERT INTO `+d.table+` (key, size, parts) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			[][]byte{text(key), number(size), id}, nil, nil, nil).Read()
		switch {
		case result.Err != nil:
			return d.failed(ctx, creating(key), result.Err)
		case result.CommandTag.RowsAffected() == 0:
			return d.name.exists(key)
		}
		committed = true
		_, err := c.Exec(ctx, "COMMIT").ReadAll()
		_, err = d.created(ctx, key, err)
		return err
	})
	if _, ok := errors.AsType[notConnected](err); ok {
		return d.failed(ctx, creating(key), err)
	}
	return err
}

// created returns the error of a statement that creates an object, and whether it can be sent again.
func (d *postgres) created(ctx context.Context, key string, err error) (again bool, _ error) {
	if err == nil {
		return false, nil
	}
	if _, ok := errors.AsType[notConnected](err); ok {
		return false, d.failed(ctx, creating(key), err)
	}
	// With class 57, a server that stops ends a commit that may wait for a standby only.
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !strings.HasPrefix(pg.Code, "57") {
		serialization := strings.HasPrefix(pg.Code, "40")
		return serialization, d.failed(ctx, creating(key), err)
	}
	return false, d.name.created(ctx, key, !pgconn.SafeToRetry(err), err)
}

// failed returns the error of a statement that has created nothing.
func (d *postgres) failed(ctx context.Context, op operation, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pg.Code == "3D000" || pg.Code == "42P01": // database, table
			return d.name.noBucket(err)
		case pg.Code == "42501" || pg.Code == "25006" || strings.HasPrefix(pg.Code, "28"):
			return d.name.denied(op, err)
		}
	}
	return d.name.unavailable(ctx, op, err)
}

// far is beyond the end of each part, and small enough to be added to another number in PostgreSQL.
const far = 1 << 29

func (d *postgres) get(ctx context.Context, key string, r Range) (*Reader, error) {
	begin, length := min(r.Begin, far), int64(far)
	if r.End > 0 {
		length = min(max(r.End-r.Begin, 0), far)
	}
	rows, err := d.query(ctx, `SELECT size, (extract(epoch FROM created) * 1000000)::bigint, parts,
		substring(body FROM $2::int + 1 FOR $3::int) FROM `+d.table+` WHERE key = $1`, text(key), number(begin), number(length))
	switch {
	case err != nil:
		return nil, d.failed(ctx, reading(key), err)
	case len(rows) == 0:
		return nil, d.name.notFound(key)
	}
	object := objectOf(key, rows[0])
	reader := &partsReader{d: d, ctx: ctx, key: key, id: rows[0][2], buffer: rows[0][3]}
	if reader.id != nil {
		reader.offset, reader.left = r.within(object.Size)
	}
	return &Reader{object, io.NopCloser(reader)}, nil
}

// objectOf returns the object of a row that begins with its size and the microseconds of its creation.
func objectOf(key string, row [][]byte) Object {
	return Object{key, int64(binary.BigEndian.Uint64(row[0])), time.UnixMicro(int64(binary.BigEndian.Uint64(row[1])))}
}

// partsReader reads the parts of an object, one at a time.
type partsReader struct {
	d            *postgres
	ctx          context.Context
	key          string
	id           []byte // nil: the object has one part
	offset, left int64  // that are not in buffer
	buffer       []byte
}

func (r *partsReader) Read(p []byte) (int, error) {
	for len(r.buffer) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buffer)
	r.buffer = r.buffer[n:]
	return n, nil
}

// next reads the next part.
func (r *partsReader) next() error {
	begin := r.offset % rowSize
	rows, err := r.d.query(r.ctx, `SELECT substring(body FROM $3::int + 1 FOR $4::int) FROM `+r.d.table+`_parts WHERE id = $1 AND n = $2`,
		r.id, number(r.offset/rowSize), number(begin), number(min(rowSize-begin, r.left)))
	switch {
	case err != nil:
		return r.d.failed(r.ctx, reading(r.key), err)
	case len(rows) == 0 || len(rows[0][0]) == 0: // deleted meanwhile
		return r.d.name.notFound(r.key)
	}
	r.buffer = rows[0][0]
	r.offset, r.left = r.offset+int64(len(r.buffer)), r.left-int64(len(r.buffer))
	return nil
}

// page is the number of objects that one statement lists.
const page = 1000

func (d *postgres) list(ctx context.Context, prefix, after string, yield func(Object) bool) error {
	for {
		rows, err := d.query(ctx, `SELECT size, (extract(epoch FROM created) * 1000000)::bigint, key FROM `+d.table+`
			WHERE key > $1 AND key >= $2 ORDER BY key LIMIT $3`, text(after), text(prefix), number(page))
		if err != nil {
			return d.failed(ctx, listing(prefix), err)
		}
		for _, row := range rows {
			after = string(row[2])
			if !strings.HasPrefix(after, prefix) || !yield(objectOf(after, row)) {
				return nil
			}
		}
		if len(rows) < page {
			return nil
		}
	}
}

func (d *postgres) delete(ctx context.Context, key string) error {
	_, err := d.query(ctx, `WITH deleted AS (DELETE FROM `+d.table+` WHERE key = $1 RETURNING parts)
		DELETE FROM `+d.table+`_parts AS p USING deleted WHERE p.id = deleted.parts`, text(key))
	if err != nil {
		return d.failed(ctx, deleting(key), err)
	}
	return nil
}

// query runs a statement that can be repeated: a second time if the connection was lost.
func (d *postgres) query(ctx context.Context, sql string, args ...[]byte) (rows [][][]byte, err error) {
	for try := range 2 {
		err = d.pool.use(ctx, func(c *pgconn.PgConn) error {
			rows, err = query(ctx, c, sql, args...)
			return err
		})
		if pg := (*pgconn.PgError)(nil); try > 0 || err == nil || ctx.Err() != nil || errors.As(err, &pg) {
			break
		}
	}
	return rows, err
}
