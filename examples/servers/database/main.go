// Command database is a small MCP server for one SQLite database, whose file is its
// argument. It is an example, and a server for the project's tests.
//
// The tool execute can run any SQL with the rights of this process. The tool query uses
// a connection that cannot write.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"math"
	"net/url"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	_ "modernc.org/sqlite"
)

const maxRows = 1000

type statement struct {
	SQL        string `json:"sql" jsonschema:"one statement, with ? for each parameter"`
	Parameters []any  `json:"parameters,omitempty" jsonschema:"values for the question marks"`
}

// values returns the parameters. It converts integral JSON numbers to integers.
func (s statement) values() []any {
	for i, p := range s.Parameters {
		if f, ok := p.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			s.Parameters[i] = int64(f)
		}
	}
	return s.Parameters
}

type rows struct {
	Columns []string         `json:"columns"`
	Rows    []map[string]any `json:"rows" jsonschema:"one object for each row, by column"`
	More    bool             `json:"more" jsonschema:"whether there are more than the first 1000 rows"`
}

type change struct {
	Rows   int64 `json:"rows_affected"`
	LastID int64 `json:"last_insert_id"`
}

type noArguments struct{}

type tables struct {
	Tables []table `json:"tables"`
}

type table struct {
	Name string `json:"name"`
	SQL  string `json:"sql" jsonschema:"the statement that made it"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: database FILE")
	}
	write, err := open(os.Args[1], "rwc")
	if err != nil {
		log.Fatal(err)
	}
	read, err := open(os.Args[1], "ro")
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(write, read); err != nil {
		log.Fatal(err)
	}
}

func open(file, mode string) (*sql.DB, error) {
	q := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(file), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA user_version") // creates the file
	if mode == "rwc" && err == nil {
		_, err = db.Exec("PRAGMA journal_mode=WAL")
	}
	return db, err
}

func serve(write, read *sql.DB) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "database", Version: "1.0.0"}, nil)
	yes, no := true, false
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(s, &mcp.Tool{Name: "query", Description: "Read rows with a SELECT; it cannot change anything.", Annotations: readOnly},
		func(ctx context.Context, _ *mcp.CallToolRequest, in statement) (*mcp.CallToolResult, rows, error) {
			r, err := query(ctx, read, in)
			return nil, r, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "execute", Description: "Run a statement that changes the database, such as CREATE, INSERT, UPDATE or " +
		"DELETE.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in statement) (*mcp.CallToolResult, change, error) {
			res, err := write.ExecContext(ctx, in.SQL, in.values()...)
			if err != nil {
				return nil, change{}, err
			}
			n, _ := res.RowsAffected()
			id, _ := res.LastInsertId()
			return nil, change{n, id}, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "list_tables", Description: "List the tables and how each was made.", Annotations: readOnly},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ noArguments) (*mcp.CallToolResult, tables, error) {
			t, err := list(ctx, read)
			return nil, tables{t}, err
		})
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

func query(ctx context.Context, db *sql.DB, in statement) (rows, error) {
	found, err := db.QueryContext(ctx, in.SQL, in.values()...)
	if err != nil {
		return rows{}, err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return rows{}, err
	}
	all := rows{Columns: append([]string{}, columns...), Rows: []map[string]any{}}
	for found.Next() {
		if len(all.Rows) == maxRows {
			all.More = true
			break
		}
		row, err := scan(found, columns)
		if err != nil {
			return rows{}, err
		}
		all.Rows = append(all.Rows, row)
	}
	return all, found.Err()
}

func scan(found *sql.Rows, columns []string) (map[string]any, error) {
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := found.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]any, len(columns))
	for i, name := range columns {
		if _, taken := row[name]; taken {
			name = fmt.Sprintf("%s_%d", name, i+1)
		}
		row[name] = values[i]
	}
	return row, nil
}

func list(ctx context.Context, db *sql.DB) ([]table, error) {
	found, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER "+
		"BY name")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	all := []table{}
	for found.Next() {
		var t table
		if err := found.Scan(&t.Name, &t.SQL); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, found.Err()
}
