"""The code of a worker, the Python process of one sandbox.

The directory is installed with the interpreter as the package `sandpiper`
(/python/sandpiper in a sandbox). Its modules import each other relatively
(`from . import output`). The zygote imports all of them before it forks and then
removes the directory from sys.path, so that user code can import a workspace file
of the same name.

zygote.py forks workers, lockdown.py binds a worker and removes its privileges,
runtime.py executes code.

The package features contains the modules of features, and their list MODULES. They may have

    LATER                names of modules in a package that the first execution does not need
    SETTLED              names of modules that few executions need, which workers share
    names(interpreter)   returns what the feature adds to the namespace of code, for an interpreter of runtime.py
    guard(workspace)     returns an object that limits code to a part of Python:

        check(tree, known)                   raises errors.Refused if the code may not run
        enter(namespace), leave(namespace)   begin and end the limits; enter returns the builtins
        compile(source, filename, known=…)   returns the code object of a module that it accepts

    requests(servers)    returns an object that sends the HTTP requests of code, as calls of tools of servers:

        names()                      returns what it adds to the namespace of code
        connect()                    returns a socket of which it is the other end
        send_httpx(module, request)  sends a request of httpx, whose transports are in module
        hint                         the message for other sockets
"""
