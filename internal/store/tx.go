package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Tx is a transaction. Each connection prepares a query once and keeps the
// statement, so query texts must be constants: pass values as arguments.
//
// A context that has ended prevents the next statement; a statement that has begun
// is completed. To watch a context, the driver starts a goroutine and
// database/sql another, which takes longer than most statements.
type Tx struct {
	c       *conn
	changed bool // whether a statement may have changed something
}

// ExecContext runs one statement that returns no rows.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.WithoutCancel(ctx), args...)
	if err == nil && !t.changed {
		rows, err := result.RowsAffected()
		t.changed = rows > 0 || err != nil
	}
	return result, err
}

// QueryContext runs one query.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	t.changed = t.changed || !strings.HasPrefix(query, "SELECT") // such as UPDATE … RETURNING
	return s.QueryContext(context.WithoutCancel(ctx), args...)
}

func (t *Tx) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return t.c.prepare(ctx, query)
}

// QueryRowContext runs one query and returns its first row.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *Row {
	rows, err := t.QueryContext(ctx, query, args...)
	return &Row{rows, err}
}

// Row is the first row of a query.
type Row struct {
	rows *sql.Rows
	err  error
}

// Scan copies the row's columns, and returns sql.ErrNoRows if there is no row.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Close()
}

// transact runs f in a transaction, and rolls it back if f fails.
func (d *DB) transact(ctx context.Context, k kind, f func(*Tx) error) (err error) {
	defer func() { d.health.recordDamage(err) }()
	if k != read {
		if err := d.checkFile(); err != nil {
			return err
		}
		release, err := d.writer.lock(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	c, err := d.begin(ctx, k)
	if err != nil {
		return explain(err)
	}
	tx, done := &Tx{c: c}, false
	defer func() {
		if !done {
			_, err := tx.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			done = err == nil
		}
		d.used.Store(time.Now().UnixNano())
		if done {
			d.release(c)
		} else {
			d.discard(c)
		}
	}()
	var n int64
	if err = f(tx); err == nil && k != read && tx.changed {
		n, err = nextCommit(context.WithoutCancel(ctx), &d.end, c)
	}
	if err != nil {
		return explain(err)
	}
	// A cancelled commit may have taken effect, so it is not cancelled.
	_, err = tx.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	done = err == nil
	if done && n > 0 {
		d.end.commit(n)
	}
	if done && k == write {
		d.end.sync(n)
	}
	if done && k != read {
		d.scheduleCheckpoint()
	}
	return explain(err)
}

// nextCommit returns the number for the commit of a transaction on c, after it has stored it in the database.
func nextCommit(ctx context.Context, w *ender, c *conn) (n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == 0 {
		if w.last, err = lastCommit(ctx, c); err != nil {
			return 0, err
		}
	}
	n = max(time.Now().UnixNano(), w.last+1)
	tx := &Tx{c: c}
	stored, err := tx.ExecContext(ctx, "UPDATE commits SET n = ? WHERE n = ?", n, w.last)
	if rows, failed := countRows(stored, err); rows != 0 || failed != nil {
		return n, failed
	}
	w.foreign = true
	// another process may have stored a larger one
	stored, err = tx.ExecContext(ctx, "UPDATE commits SET n = CASE WHEN n < ? THEN max(n + 1, ?) ELSE ? END", int64(maxCommit), n, n)
	if rows, failed := countRows(stored, err); rows != 0 || failed != nil {
		return n, failed
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO commits VALUES (?)", n)
	return n, err
}

func countRows(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// lastCommit returns the number of the last commit, and creates the table of it if it is missing.
func lastCommit(ctx context.Context, c *conn) (n int64, err error) {
	err = c.QueryRowContext(ctx, selectCommit).Scan(&n)
	if code(err) == sqlite3.SQLITE_ERROR { // there is no such table
		_, err = c.ExecContext(ctx, commitsTable+"; INSERT INTO commits VALUES (0)")
	}
	return validCommit(n), err
}

// ForgetCommits deletes the number of the last commit of a database from elsewhere, such as an import.
func ForgetCommits(ctx context.Context, d *DB) error {
	return d.Update(ctx, func(tx *Tx) error {
		d.end.mu.Lock()
		defer d.end.mu.Unlock()
		if _, err := lastCommit(ctx, tx.c); err != nil { // creates the table
			return err
		}
		d.end.last = 0
		_, err := tx.ExecContext(ctx, "DELETE FROM commits")
		return err
	})
}
