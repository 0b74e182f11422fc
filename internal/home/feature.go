package home

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Feature describes the data of a feature in each home. Fields that are not set add nothing.
type Feature struct {
	Name   string            // also of its Marks
	Tables []store.Migration // in the database, numbered from 1
	// Pending is an SQL expression that is true if a database has work of the feature for later: a tenant
	// that was imported or restored is marked then.
	Pending string
	// Refresh is called when a home is opened, and sometimes later. An error is logged.
	Refresh func(context.Context, *Home) error
}

// openDatabase opens the database of a tenant, or a copy of it.
func openDatabase(ctx context.Context, l layout, path string) (*store.DB, error) {
	var tables []store.Feature
	for _, f := range l.features {
		if f.Tables != nil {
			tables = append(tables, store.Feature{Name: f.Name, Migrations: f.Tables})
		}
	}
	return store.Open(ctx, path, migrations, tables...)
}

// Executions is the name of the marks of background executions.
const Executions = "executions"

// Marks returns the marks of a name: Executions, or a feature.
func (t Directory) Marks(name string) Marks { return t.layout.marks(name) }

// SetDue marks the home as having work of a feature at a time; see Marks.Set.
func (h *Home) SetDue(feature string, at time.Time) error {
	return h.parts.marks(feature).Set(h.ID(), at)
}
