package workspace

import "context"

// Info is the metadata of a file.
type Info struct {
	Size int64 // in bytes
	// Version changes when the file is written or replaced. It may also change with its name
	// or permissions.
	Version string
}

// Stat returns the metadata of a file. It returns the same errors as Read.
func (f *Files) Stat(ctx context.Context, name string) (Info, error) {
	p, err := cleanFile(name)
	if err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	d, rel, err := f.locate(p)
	if err != nil {
		return Info{}, err
	}
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

// CheckName returns an error if no file can have the name.
func CheckName(name string) error {
	_, err := cleanFile(name)
	return err
}
