// Package stop stops the processes of a sandbox by SIGSTOP, including those that start meanwhile,
// and continues them.
package stop
