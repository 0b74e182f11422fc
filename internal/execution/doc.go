// Package execution runs one piece of Python for one tenant: it checks what is
// asked for, waits for a place, opens a sandbox, serves the calls of the code,
// keeps the time, and turns what comes out into an answer that fits a reply.
//
// Words: a Request asks for an execution; Start returns a handle, an
// *Execution, at once; Next gives Progress and at last Done with a Result.
// Attach returns another handle on an execution that runs or has just ended.
// Request, Event and Result are plain values that survive JSON.
//
// What the code does is a Result, never an error. An error means that the
// execution was not run: wrong arguments, a full queue, no working sandbox.
//
// The ErrorType of a failed Result is the class name of the exception, or one
// of these words:
//
//	timeout       the running time was up
//	memory, processes, open_files, file_size, cpu_time,
//	result_size, output, disk
//	              this limit ended it
//	crashed       the Python process died or broke its protocol
//	cancelled     nobody wanted the result any more
//	differs       run again, the code asked for something else than before
//	refused       a check before the run, if it has no word of its own
//
// An execution may be a step of a session. It then continues the session's
// living interpreter, one step at a time, and is in the session's log before
// there is Done. Interpreters that nobody calls are frozen, and ended after a
// while or when there are too many.
//
// A value, output, images or error texts beyond what a reply carries are kept
// in full in the tenant's workspace beneath .results, named after the
// execution, and the Result says where.
//
// A Runner is safe for concurrent use. It writes nothing durable but what
// spills and the logs of sessions. It does not talk to models: what it returns
// has not passed the exit.
package execution
