// Package cluster keeps a copy of all tenants in a bucket, from which any moment is restored.
//
// The copy of a tenant is a log of entries: see package store/bucketlog. An entry has the pages of the database that have
// changed, as package store/pages writes them, and the files that have. A snapshot is an entry with all of them;
// entries before the last snapshot that is older than store.keep are deleted. A daemon looks for changes every
// store.sync, and writes at most one entry for each tenant then.
//
// A data directory has a name in its entries. If a log has an entry of another one that came later, this one stops
// writing: two data directories must not continue one log.
package cluster

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Settings are the section store of the configuration.
type Settings struct {
	Store struct {
		Bucket string        `key:"bucket,restart" form:"text"` // URL of blob.Open; "" means none
		Sync   time.Duration `key:"sync" default:"2s" range:"100ms 1h"`
		Keep   time.Duration `key:"keep" form:"age" default:"720h"` // 0 means for ever
	} `key:"store"`
}

// Feature returns the feature: the copy in the bucket of store.bucket, and the command store.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   "cluster",
			Config: config.Section{Settings: func() any { return new(Settings) }},
			Start:  start,
		},
		Docs:     "backup.md",
		Commands: commands,
	}
}

// settings returns the settings of a configuration.
func settings(c *config.Config) *Settings { return config.Of[Settings](c) }

func start(core daemon.Core) (daemon.Part, error) {
	if settings(core.Config()).Store.Bucket == "" {
		return daemon.Part{}, nil
	}
	s, err := openStore(context.Background(), core.Config())
	if err != nil {
		return daemon.Part{}, err
	}
	l := newLoop(s, core)
	return daemon.Part{Value: l, Close: l.close}, nil
}

// errNoBucket is the error of commands without a bucket.
var errNoBucket = fault.New(fault.Invalid, "store.bucket is not set: there is no bucket").
	WithHint("set it in sandpiper.yaml, such as store: {bucket: \"file:///var/backups/sandpiper\"}")
