// Package quota enforces the quotas of workspaces while code runs. It measures a workspace
// with the deleted files that its sandboxes hold open, and kills those whose code exceeds the
// quota. It is used by backends whose sandboxes write to a directory of the host.
//
// A Watch is safe for concurrent use.
package quota
