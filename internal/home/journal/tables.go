package journal

// Tables creates the tables of the journal. Times are Unix milliseconds. Encrypted columns
// use a key of the execution and are bound to the number of the row.
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

CREATE TABLE journal_logs (
	log   TEXT    NOT NULL PRIMARY KEY, -- name of a log of calls
	frame INTEGER NOT NULL              -- number of its last frame in these tables
) STRICT, WITHOUT ROWID;

CREATE TABLE journal_executions (
	execution TEXT    NOT NULL PRIMARY KEY,
	state     TEXT    NOT NULL,
	process   TEXT    NOT NULL, -- name of the process that runs it, '' for none
	created   INTEGER NOT NULL,
	changed   INTEGER NOT NULL,
	bytes     INTEGER NOT NULL, -- size of all encrypted columns
	request   BLOB    NOT NULL  -- encrypted
) STRICT;

CREATE TABLE journal_host_calls (
	execution TEXT    NOT NULL REFERENCES journal_executions ON DELETE CASCADE,
	number    INTEGER NOT NULL, -- position in the order of the code's calls
	method    TEXT    NOT NULL, -- '' for a tool
	server    TEXT    NOT NULL,
	tool      TEXT    NOT NULL,
	state     TEXT    NOT NULL, -- pending, begun or answered
	step      INTEGER NOT NULL DEFAULT 0, -- number of the step that made the call, which is deleted when the step has ended
	arguments BLOB    NOT NULL, -- encrypted
	answer    BLOB,             -- encrypted
	PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal_background (
	execution  TEXT    NOT NULL PRIMARY KEY,
	state      TEXT    NOT NULL,
	outcome    TEXT    NOT NULL DEFAULT '',
	on_restart TEXT    NOT NULL,
	process    TEXT    NOT NULL, -- name of the process that runs it, '' for none
	created    INTEGER NOT NULL,
	changed    INTEGER NOT NULL,
	due        INTEGER,          -- when to run it; NULL if it runs, has ended or waits for a signal only
	events     TEXT    NOT NULL DEFAULT '', -- hashes of the events that it waits for
	cancel     INTEGER NOT NULL DEFAULT 0,
	request    BLOB    NOT NULL, -- encrypted, like live and result
	live       BLOB,
	result     BLOB
) STRICT;
CREATE INDEX journal_background_due ON journal_background (state, due);

CREATE TABLE journal_signals (
	number    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	execution TEXT    NOT NULL,
	event     TEXT    NOT NULL, -- hash
	value     BLOB    NOT NULL  -- encrypted
) STRICT;
CREATE INDEX journal_signals_execution ON journal_signals (execution, event);
`

// Queries for names, see home.Names: executions that can be resumed, background executions, and those of them that
// have not ended; the latest first.
const (
	UnfinishedQuery       = "SELECT execution, state FROM journal_executions ORDER BY changed DESC LIMIT 200"
	BackgroundQuery       = "SELECT execution, state FROM journal_background ORDER BY created DESC LIMIT 200"
	ActiveBackgroundQuery = "SELECT execution, state FROM journal_background WHERE state != 'ended' ORDER BY created DESC LIMIT 200"
)
