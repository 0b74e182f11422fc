// Package execution runs one piece of Python for one tenant. It validates the request,
// waits for a slot in the queue, opens a sandbox, serves the host calls of the code,
// enforces the time limit, and fits the outcome into a reply.
//
// A Request describes an execution. Start returns a handle, an *Execution, at once;
// Next returns Progress, Questions and finally Done with a Result. Attach returns
// another handle on an execution that is running or has recently ended. Resume also
// reruns an interrupted one from its record. Request, Event and Result are plain
// values that survive JSON.
//
// A failure of the code is a Result, never an error. An error means that the execution
// was not run: invalid arguments, a full queue, no working sandbox.
//
// The ErrorType of a failed Result is the class name of the exception, or one of:
//
//	timeout       the time limit was reached
//	memory, processes, open_files, file_size, cpu_time,
//	result_size, output, disk, host_disk
//	              this limit was reached
//	crashed       the Python process died or violated its protocol
//	cancelled     the caller's context ended, or Sandpiper stopped
//	differs       divergence: the resumed code made other calls than the recorded run
//	undecided     the resumed code came to a call whose outcome is unknown, and no person
//	              has decided what happened
//	guardrail     a guardrail or a hook refused the code or its result
//	refused       a check before the run refused the code, without a type of its own
//	PlanError     a plan was not approved, or one of its calls failed
//
// An execution may be a step of a session. It then continues the session's live
// interpreter, one step at a time, and is written to the session's log before Done.
// Idle interpreters are frozen, and ended after a while or when there are too many.
//
// Values, output, images and error texts that exceed the size of a reply are stored
// completely in the tenant's workspace under .results, named after the execution, and
// the Result contains their paths.
//
// A suspended execution waits for an answer and outlives its caller. Its clock is
// paused and its slot is free for others.
//
// A Runner is safe for concurrent use. The package writes spilled results, session
// logs, plans and the records of executions that can be resumed. Its results are not
// yet redacted for a model.
package execution
