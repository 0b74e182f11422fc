package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

// Tables creates the tables of the sessions. Times are Unix milliseconds. Encrypted
// columns are bound to their rows; see cipher.
const Tables = `
CREATE TABLE sessions (
	id      TEXT    NOT NULL PRIMARY KEY,
	started INTEGER NOT NULL,
	ended   INTEGER NOT NULL,
	changed INTEGER NOT NULL, -- time of the last change, increased where needed to be unique
	next    INTEGER NOT NULL, -- number of the next step
	tasks   INTEGER NOT NULL, -- stored steps
	bytes   INTEGER NOT NULL, -- their size before encryption
	checkpoint      BLOB,     -- encrypted checkpointData; NULL if there is none
	checkpoint_task INTEGER,
	checkpoint_time INTEGER,
	records INTEGER NOT NULL DEFAULT 0 -- size of the records of its steps
) STRICT;
CREATE UNIQUE INDEX sessions_changed ON sessions (changed);
CREATE TABLE session_tasks (
	session   TEXT    NOT NULL REFERENCES sessions ON DELETE CASCADE,
	number    INTEGER NOT NULL,
	encrypted BLOB    NOT NULL, -- taskData
	vars_lost INTEGER NOT NULL, -- 1 if the variables were too large to store
	lost      INTEGER NOT NULL, -- 1 if the interpreter ended with this step
	began     INTEGER NOT NULL,
	bytes     INTEGER NOT NULL, -- size before encryption
	recorded  INTEGER NOT NULL DEFAULT 0, -- a constant of type Recorded
	record    BLOB,             -- encrypted record of its calls; NULL if there is none
	key       TEXT    NOT NULL, -- of Append
	PRIMARY KEY (session, number)
) STRICT;
CREATE TABLE session_logs ` + appendlog.Columns + `;
CREATE TABLE session_files (
	session   TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
	path_mac  TEXT NOT NULL, -- keyed hash of the path
	encrypted BLOB NOT NULL, -- path
	PRIMARY KEY (session, path_mac)
) STRICT, WITHOUT ROWID;
`

// NameQuery selects the sessions, the latest first; see home.Names.
const NameQuery = "SELECT id, tasks || ' tasks' FROM sessions ORDER BY ended DESC LIMIT 200"

// fit truncates fields beyond the limits.
func (s *Step) fit() {
	s.Result, s.Output = clip(s.Result), clip(s.Output)
	if s.VarsLost = len(s.Vars) > maxVars; s.VarsLost {
		s.Vars = nil
	}
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "… (truncated)"
}

func (s Step) bytes() int64 {
	return int64(len(s.Description) + len(s.Code) + len(s.Vars) + len(s.Result) + len(s.Output))
}

// row contains the columns of sessions that a step or a checkpoint changes.
type row struct {
	id                                          string
	started, ended, changed, next, tasks, bytes int64
	known                                       bool // the row exists
}

// find reads the row of a session, or prepares a new one, with the number of the next change.
// It takes one query for an existing session, because an answer waits for it.
func find(ctx context.Context, tx *store.Tx, id string, now time.Time) (row, error) {
	r := row{id: id, known: true}
	var last int64
	err := tx.QueryRowContext(ctx, "SELECT started, next, tasks, bytes, (SELECT max(changed) FROM sessions) FROM sessions WHERE id = ?",
		id).
		Scan(&r.started, &r.next, &r.tasks, &r.bytes, &last)
	if errors.Is(err, sql.ErrNoRows) {
		r = row{id: id, started: now.UnixMilli(), next: 1}
		err = tx.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM sessions").Scan(&last)
	}
	r.ended, r.changed = now.UnixMilli(), max(now.UnixMilli(), last+1)
	return r, err
}

func (r row) put(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, started, ended, changed, next, tasks, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET ended = excluded.ended, changed = excluded.changed, next = excluded.next, tasks = excluded.tasks, bytes = excluded.bytes`,
		r.id, r.started, r.ended, r.changed, r.next, r.tasks, r.bytes)
	return err
}

// trimInterval is how many bytes a session grows between checks of the total size. The size is
// also checked when a session is created.
const trimInterval = 16 << 10

// append stores a step that was appended at a time.
func (l rows) append(ctx context.Context, tx *store.Tx, id string, s Step, at time.Time) error {
	r, err := find(ctx, tx, id, at)
	if err != nil {
		return err
	}
	if !r.known {
		r.started = s.Began.UnixMilli()
	}
	if s.Number == 0 {
		s.Number = int(r.next)
	}
	before := r.bytes
	r.next, r.tasks, r.bytes = max(r.next, int64(s.Number)+1), r.tasks+1, r.bytes+s.bytes()
	if err := r.put(ctx, tx); err != nil {
		return err
	}
	if err := l.insertStep(ctx, tx, id, s); err != nil {
		return err
	}
	if r.tasks > int64(l.cfg.Steps) || r.bytes > l.cfg.StepBytes {
		if err := l.trimSteps(ctx, tx, id); err != nil {
			return err
		}
	}
	if !r.known || before/trimInterval != r.bytes/trimInterval {
		err = l.trimSessions(ctx, tx, id)
	}
	return err
}

func (l rows) insertStep(ctx context.Context, tx *store.Tx, id string, s Step) error {
	encrypted, err := l.cipher.encrypt(ofTask, taskData{[]byte(s.Description), []byte(s.Code), []byte(s.Result), []byte(s.Output), s.Vars,
		s.Fresh}, id, s.Number)
	if err != nil {
		return err
	}
	var record []byte
	if s.Record != nil {
		record = l.cipher.Seal(ofRecord, s.Record, id, s.Number)
	}
	// of a number that was reserved twice
	_, err = tx.ExecContext(ctx, "INSERT INTO session_tasks (session, number, encrypted, vars_lost, lost, began, bytes, recorded, "+
		"record, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		id, s.Number, encrypted, s.VarsLost, s.InterpreterLost, s.Began.UnixMilli(), s.bytes(), s.Recorded, record, s.Key)
	if err == nil && record != nil {
		err = l.trimRecords(ctx, tx, id, len(record))
	}
	for _, path := range s.Files {
		if err == nil {
			err = l.insertFile(ctx, tx, id, path)
		}
	}
	return err
}

func (l rows) insertFile(ctx context.Context, tx *store.Tx, id, path string) error {
	encrypted, err := l.cipher.encrypt(ofFile, []byte(path), id)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT OR IGNORE INTO session_files (session, path_mac, encrypted)
		SELECT ?, ?, ? WHERE (SELECT count(*) FROM session_files WHERE session = ?) < ?`, id, l.cipher.mac(id, path), encrypted, id, maxFiles)
	return err
}

// trimSteps deletes the oldest steps of a session until it is at three quarters of its limits,
// so that not every following step deletes one.
func (l rows) trimSteps(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM session_tasks WHERE session = ?1 AND number <= (SELECT max(number) FROM (
		SELECT number, sum(bytes) OVER newest AS total, row_number() OVER newest AS position
		FROM session_tasks WHERE session = ?1 WINDOW newest AS (ORDER BY number DESC)
	) WHERE position > 1 AND (total > ?2 OR position > ?3))`, id, l.cfg.StepBytes*3/4, l.cfg.Steps*3/4)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET (tasks, bytes, records) =
		(SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(length(record)), 0) FROM session_tasks WHERE session = ?1) WHERE id = ?1`, id)
	return err
}

// trimSessions deletes the least recently used sessions until the rest is within the limits. It
// keeps the session id.
func (l rows) trimSessions(ctx context.Context, tx *store.Tx, id string) error {
	for {
		var bytes int64
		var count int
		err := tx.QueryRowContext(ctx, "SELECT sum(bytes), count(*) FROM sessions").Scan(&bytes, &count)
		if err != nil || count <= l.cfg.Sessions && bytes <= l.cfg.MaxBytes {
			return err
		}
		r, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE id = (SELECT id FROM sessions WHERE id <> ? ORDER BY changed LIMIT 1)",
			id)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return err
		}
	}
}

func (l rows) checkpoint(ctx context.Context, tx *store.Tx, id string, number int, step, about json.RawMessage) (int, error) {
	now := time.Now()
	r, err := find(ctx, tx, id, now)
	if err != nil {
		return 0, err
	}
	if number == 0 {
		number = int(r.next)
	}
	r.next = max(r.next, int64(number)+1)
	if err := r.put(ctx, tx); err != nil {
		return 0, err
	}
	encrypted, err := l.cipher.encrypt(ofCheckpoint, checkpointData{step, about}, id)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE sessions SET checkpoint = ?, checkpoint_task = ?, checkpoint_time = ? WHERE id = ?",
		encrypted, number, now.UnixMilli(), id)
	if err == nil && !r.known {
		err = l.trimSessions(ctx, tx, id)
	}
	return number, err
}

type scanner interface{ Scan(...any) error }

// summary lists the columns of a Summary.
const summary = "id, started, ended, tasks, checkpoint, checkpoint_task, checkpoint_time"

func (l rows) scanSummary(r scanner) (Summary, error) {
	var s Summary
	var started, ended int64
	var encrypted []byte
	var task, at sql.NullInt64
	if err := r.Scan(&s.ID, &started, &ended, &s.Tasks, &encrypted, &task, &at); err != nil {
		return s, err
	}
	s.Started, s.Ended = moment(started), moment(ended)
	if encrypted == nil {
		return s, nil
	}
	var c checkpointData
	if err := l.cipher.decrypt(ofCheckpoint, encrypted, &c, s.ID); err != nil {
		return s, err
	}
	s.Checkpoint = &Checkpoint{Step: c.Step, LastTask: taskID(int(task.Int64)), Context: c.Context, Timestamp: moment(at.Int64)}
	return s, nil
}

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// load returns a session, or sql.ErrNoRows.
func (l rows) load(ctx context.Context, tx *store.Tx, id string) (Session, error) {
	s, err := l.loadHead(ctx, tx, id)
	if err != nil {
		return s, err
	}
	steps, err := l.loadSteps(ctx, tx, id, 0)
	for _, step := range steps {
		s.Tasks = append(s.Tasks, step.task())
	}
	return s, err
}

// loadHead returns a session without its tasks, or sql.ErrNoRows.
func (l rows) loadHead(ctx context.Context, tx *store.Tx, id string) (Session, error) {
	head, err := l.scanSummary(tx.QueryRowContext(ctx, "SELECT "+summary+" FROM sessions WHERE id = ?", id))
	if err != nil {
		return Session{}, err
	}
	s := Session{
		ID: id, Customer: l.cfg.Customer, Started: head.Started, Ended: head.Ended,
		Tasks: []Task{}, StateFiles: []string{}, Checkpoint: head.Checkpoint,
	}
	err = each(ctx, tx, "SELECT encrypted FROM session_files WHERE session = ?", []any{id}, func(r scanner) error {
		var encrypted, path []byte
		err := r.Scan(&encrypted)
		if err == nil {
			err = l.cipher.decrypt(ofFile, encrypted, &path, id)
		}
		s.StateFiles = append(s.StateFiles, string(path))
		return err
	})
	slices.Sort(s.StateFiles)
	return s, err
}

// loadSteps returns the steps from a number on.
func (l rows) loadSteps(ctx context.Context, tx *store.Tx, id string, from int) (steps []Step, err error) {
	err = each(ctx, tx, "SELECT number, encrypted, vars_lost, lost, began, recorded, key FROM session_tasks WHERE session = ? AND number "+
		">= ? ORDER BY number", []any{id, from}, func(r scanner) error {
		var row Step
		var began int64
		var encrypted []byte
		if err := r.Scan(&row.Number, &encrypted, &row.VarsLost, &row.InterpreterLost, &began, &row.Recorded, &row.Key); err != nil {
			return err
		}
		var t taskData
		if err := l.cipher.decrypt(ofTask, encrypted, &t, id, row.Number); err != nil {
			return err
		}
		s := t.step()
		s.Key, s.Number, s.VarsLost, s.InterpreterLost, s.Began, s.Recorded = row.Key, row.Number, row.VarsLost, row.InterpreterLost,
			moment(began), row.Recorded
		steps = append(steps, s)
		return nil
	})
	return steps, err
}

// stepNumbers returns the numbers of the stored steps. It reads only the index.
func stepNumbers(ctx context.Context, tx *store.Tx, id string) (all []int, err error) {
	err = each(ctx, tx, "SELECT number FROM session_tasks WHERE session = ? ORDER BY number", []any{id}, func(r scanner) error {
		var n int
		err := r.Scan(&n)
		all = append(all, n)
		return err
	})
	return all, err
}

// exists returns sql.ErrNoRows if there is no such session.
func exists(ctx context.Context, tx *store.Tx, id string) error {
	var one int
	return tx.QueryRowContext(ctx, "SELECT 1 FROM sessions WHERE id = ?", id).Scan(&one)
}

func each(ctx context.Context, tx *store.Tx, query string, args []any, f func(scanner) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
