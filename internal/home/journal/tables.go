package journal

// Tables is the first migration of the journal. Times are Unix milliseconds.
const Tables = `
CREATE TABLE journal_calls (
	id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	execution TEXT    NOT NULL,
	server    TEXT    NOT NULL,
	tool      TEXT    NOT NULL,
	arguments TEXT    NOT NULL, -- hash
	began     INTEGER NOT NULL,
	ended     INTEGER,          -- NULL as long as it is not known
	outcome   TEXT              -- how it ended
) STRICT;
`

// RunTables is the second. What is sealed is so with a key of its execution, and
// bound to its number.
const RunTables = `
CREATE TABLE journal_runs (
	execution TEXT    NOT NULL PRIMARY KEY,
	state     TEXT    NOT NULL,
	process   TEXT    NOT NULL, -- that runs it, '' if none does
	created   INTEGER NOT NULL,
	changed   INTEGER NOT NULL,
	bytes     INTEGER NOT NULL, -- of all that is sealed
	request   BLOB    NOT NULL  -- sealed
) STRICT;

CREATE TABLE journal_asked (
	execution TEXT    NOT NULL REFERENCES journal_runs ON DELETE CASCADE,
	number    INTEGER NOT NULL, -- in the order in which the code asked
	method    TEXT    NOT NULL, -- '' for a tool
	server    TEXT    NOT NULL,
	tool      TEXT    NOT NULL,
	state     TEXT    NOT NULL, -- asked, begun or answered
	arguments BLOB    NOT NULL, -- sealed
	answer    BLOB,             -- sealed
	PRIMARY KEY (execution, number)
) STRICT, WITHOUT ROWID;
`
