package packages

import (
	"strings"
	"testing"
)

func TestModulesAreNotReplaced(t *testing.T) {
	const so = ".cpython-314-x86_64-linux-gnu.so"
	for _, c := range []struct {
		name     string
		one, two string // files; of those with a !, the module only declares a namespace package
		clash    bool
	}{
		{"a directory beside a file", "z.py", "z/__init__.py", true},
		{"a library beside a file", "z.py", "z" + so, true},
		{"a library of any version", "z.py", "z.abi3.so", true},
		{"another library", "z" + so, "z.so", true},
		{"deeper", "z/__init__.py z/a.py", "z/__init__.py z/a" + so, true},
		{"the same file and more", "z.py", "z.py z" + so, true},
		{"code for a namespace", "z/a.py", "z/__init__.py", true},
		{"a library for a namespace", "z/a/b.py", "z/__init__" + so, true},
		{"a file beside a namespace", "z/a.py", "z.py", true},
		{"another case", "z.py", "Z.py", true},
		{"another case of a directory", "z/__init__.py", "Z.py", true},
		{"a declared namespace", "z/a.py", "!z/__init__.py z/b.py", false},
		{"a namespace", "z/a.py", "z/b.py z/a/data.txt", false},
		{"the same package", "!z/__init__.py z/a.py", "!z/__init__.py z/b.py", false},
		{"one package with all", "z.py z.so Y.py y.py", "x.py", false},
		{"libraries with versions", "lib/libz.1.so", "lib/libz.2.so", false},
	} {
		for _, swapped := range []bool{false, true} {
			files := map[string]*origin{}
			list := []string{c.one, c.two}
			if swapped {
				list[0], list[1] = list[1], list[0]
			}
			for i, pkg := range []string{"one", "two"} {
				for name := range strings.FieldsSeq(list[i]) {
					name, declares := strings.CutPrefix(name, "!")
					if files[name] == nil {
						files[name] = &origin{declares: declares}
					}
					files[name].pkgs = append(files[name].pkgs, pkg)
				}
			}
			err := checkModules(files)
			if (err != nil) != c.clash || err != nil && !(strings.Contains(err.Error(), "one") && strings.Contains(err.Error(), "two")) {
				t.Errorf("%s, swapped %v: %v", c.name, swapped, err)
			}
		}
	}
}

func TestNamespaceDeclarations(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "# a comment\n\n": true, "__path__ = __import__(\"pkgutil\").extend_path(__path__, __name__)  # type: ignore\n": true,
		"try:\n    import pkg_resources\n    pkg_resources.declare_namespace(__name__)\nexcept ImportError:\n    import pkgutil\n    " +
			"__path__ = pkgutil.extend_path(__path__, __name__)\n": true,
		"import os": false, "try: import os": false, "import pkgutil; import os": false, strings.Repeat("#\n", 4096) + "import os": false,
	} {
		start := &beginning{}
		_, _ = start.Write([]byte(text))
		if declaresNamespace(start) != want {
			t.Errorf("%.60q: %v", text, !want)
		}
	}
}
