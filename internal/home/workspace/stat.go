package workspace

import "context"

// Info is what can be told of a file without reading it.
type Info struct {
	Size int64 // in bytes
	// Version is another one after the file was written to or replaced. A
	// rename or new permissions may make another one too.
	Version string
}

// Stat describes a file that Read would read, and refuses what Read refuses.
func (f *Files) Stat(ctx context.Context, name string) (Info, error) {
	p, err := cleanFile(name)
	if err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	d, rel := f.locate(p)
	file, err := d.openFile(rel)
	if err != nil {
		return Info{}, explain(name, err)
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return Info{}, explain(name, err)
	}
	return Info{Size: fi.Size(), Version: version(fi)}, nil
}

// CheckName refuses what no file can be called, whatever there is.
func CheckName(name string) error {
	_, err := cleanFile(name)
	return err
}
