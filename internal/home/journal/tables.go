package journal

import "github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"

// Tables creates the tables of the journal. Times are Unix milliseconds. Encrypted columns use a key of
// the tenant and are bound to their row.
const Tables = `
CREATE TABLE journal_calls (
	id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	execution TEXT    NOT NULL,
	server    TEXT    NOT NULL,
	tool      TEXT    NOT NULL,
	arguments TEXT    NOT NULL, -- hash
	began     INTEGER NOT NULL,
	ended     INTEGER,          -- NULL while the call has no known outcome
	outcome   TEXT,
	ref       TEXT              -- by which the log of calls ends a call that has none; NULL if it has ended
) STRICT;
CREATE INDEX journal_calls_ref ON journal_calls (ref) WHERE ref IS NOT NULL;

CREATE TABLE journal_logs ` + appendlog.Columns + `;

CREATE TABLE runs (
	execution  TEXT    NOT NULL PRIMARY KEY,
	state      TEXT    NOT NULL, -- a State
	outcome    TEXT    NOT NULL DEFAULT '', -- of an ended one
	reason     TEXT    NOT NULL DEFAULT '', -- why it waits for a person, or how its code ended
	on_restart TEXT    NOT NULL DEFAULT '', -- what a daemon does if the owner has died, '' for nothing
	owner      TEXT    NOT NULL, -- name of the process that runs it, '' for none
	created    INTEGER NOT NULL,
	changed    INTEGER NOT NULL,
	due        INTEGER,          -- when to run it; NULL if it runs, has ended or waits for a signal or a person only
	events     TEXT    NOT NULL DEFAULT '', -- hashes of the events that it waits for
	cancel     INTEGER NOT NULL DEFAULT 0,
	recorded   INTEGER NOT NULL DEFAULT 0, -- 1 if it can be replayed, 2 if its record is too large for that
	bytes      INTEGER NOT NULL DEFAULT 0, -- size of its record
	workflow   TEXT    NOT NULL DEFAULT '', -- name of the workflow that it runs, '' for none
	version    TEXT    NOT NULL DEFAULT '', -- of the workflow
	request    BLOB,             -- encrypted, like live and result
	live       BLOB,
	result     BLOB
) STRICT;
CREATE INDEX runs_due ON runs (state, due, created, changed);
CREATE INDEX runs_background ON runs (state) WHERE on_restart != '';
CREATE INDEX runs_ended ON runs (changed, execution) WHERE state = 'ended' AND (on_restart != '' OR result IS NOT NULL);
CREATE INDEX runs_workflow ON runs (created) WHERE workflow != '';

CREATE TABLE run_events (
	execution TEXT    NOT NULL REFERENCES runs ON DELETE CASCADE,
	number    INTEGER NOT NULL, -- position in the order of the code's calls; below 0 for a signal, the latest the lowest
	method    TEXT    NOT NULL, -- '' for a tool
	server    TEXT    NOT NULL, -- of a signal, the hash of its event
	tool      TEXT    NOT NULL,
	state     TEXT    NOT NULL, -- pending, begun, answered, unknown or replied; sent of a signal
	step      INTEGER NOT NULL DEFAULT 0, -- number of the step that made the call, which is deleted when the step has ended
	arguments BLOB    NOT NULL, -- encrypted; of a signal, its value
	answer    BLOB,             -- encrypted
	PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;
`

// Queries for names, see home.Names: runs that can be resumed, background executions, and those of them
// that have not ended; runs of workflows, and those of them that have not ended; the latest first.
const (
	UnfinishedQuery = "SELECT execution, CASE reason WHEN '' THEN state ELSE reason END FROM runs WHERE recorded > 0 ORDER BY " +
		"changed DESC LIMIT 200"
	BackgroundQuery       = "SELECT execution, state FROM runs WHERE on_restart != '' ORDER BY created DESC LIMIT 200"
	ActiveBackgroundQuery = "SELECT execution, state FROM runs WHERE on_restart != '' AND state != 'ended' ORDER BY created DESC LIMIT 200"
	WorkflowQuery         = "SELECT execution, workflow || ', ' || CASE state WHEN 'ended' THEN outcome ELSE state END FROM runs WHERE " +
		"workflow != '' ORDER BY created DESC LIMIT 200"
)
