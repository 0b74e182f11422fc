package home

// Migrations are those of a tenant's database.
var Migrations = migrations

// Kill releases what the kernel releases when the process of a restore is killed.
func (r *Restoration) Kill() { _ = r.files.close(); _ = r.lock.Close() }
