"""What runs inside a worker, the Python process of one sandbox.

The folder is installed as the package `sandpiper` beside the interpreter
(/python/sandpiper in a sandbox). Its modules import each other relatively
(`from . import output`) and are all imported by the zygote before it forks;
the folder is then taken off sys.path, so that a file named like one of them in
the workspace is found by user code.

zygote.py forks workers, seal.py binds and seals one, runtime.py serves it.
restrict.py checks restricted code by the lists of allowed.py, fence.py is what
such code finds in place of builtins and modules.
"""
