def greet(name):
    return 'hello 2, ' + name
