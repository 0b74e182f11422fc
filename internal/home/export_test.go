package home

import "time"

// Migrations are those of a tenant's database.
var Migrations = migrations

// Kill releases what the kernel releases when the process of a restore is killed.
func (r *Restoration) Kill() { _ = r.files.close(); _ = r.lock.Close() }

// TrimUnused closes the databases of all unused homes.
func TrimUnused(t *Homes) { trimUnused(&t.pool, time.Now().Add(time.Second)) }

// UnusedHomes is the limit that Config.Idle replaces.
var UnusedHomes = unusedHomes
