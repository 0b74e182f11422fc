"""The code of a worker, the Python process of one sandbox.

The directory is installed with the interpreter as the package `sandpiper`
(/python/sandpiper in a sandbox). Its modules import each other relatively
(`from . import output`). The zygote imports all of them before it forks and then
removes the directory from sys.path, so that user code can import a workspace file
of the same name.

zygote.py forks workers, lockdown.py binds a worker and removes its privileges,
runtime.py executes code. restrict.py checks restricted code against the lists of
allowed.py; guard.py replaces builtins and modules for such code.

The package features contains the modules of features, and their list MODULES. The function
names of each returns what it adds to the namespace of code, for an interpreter of runtime.py.
"""
