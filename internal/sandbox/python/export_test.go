//go:build linux && (amd64 || arm64)

package python

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
)

var whole = embedded

// InstallWhole makes Install write all files of the distribution.
func InstallWhole() { embedded = whole }

// InstallPart makes Install write those that the interpreter needs to start and to import json,
// which is enough for tests of how it writes them.
func InstallPart() {
	list, err := listEmbedded(whole)
	if err != nil {
		panic(err)
	}
	modules := regexp.MustCompile(`^lib/python3\.14/((encodings|importlib|json|re|collections)/.*|(_.*|abc|codecs|contextlib|copyreg|enum|functools|genericpath|heapq|io|keyword|` +
		`linecache|operator|os|posixpath|reprlib|runpy|site|stat|tokenize|token|types|warnings|weakref|zipimport)\.py)$`)
	list = slices.DeleteFunc(list, func(p packed) bool {
		return p.Mode.IsRegular() && p.Symlink == "" && p.Name != executable && !modules.MatchString(p.Name)
	})
	data, err := json.Marshal(map[string][]packed{"Files": list})
	if err != nil {
		panic(err)
	}
	embedded = part{whole, data}
}

// part is a distribution with another list of files.
type part struct {
	fs.FS
	list []byte
}

func (p part) ReadFile(name string) ([]byte, error) {
	if name == "files.json" {
		return p.list, nil
	}
	return fs.ReadFile(p.FS, name)
}
