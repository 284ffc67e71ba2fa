package store

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/param"
)

// Shared reports whether a name means the same on every machine: an object's name does, a local
// path does not.
func Shared(name string) bool { return !isLocal(name) }

// isLocal reports whether a name is a local path: it has no scheme, or file://.
func isLocal(name string) bool {
	s := scheme(name)
	return s == "" || s == "file"
}

// scheme returns the part before "://", or "".
func scheme(name string) string {
	s, _, found := strings.Cut(name, "://")
	if !found || s == "" ||
		strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return ""
	}
	return s
}

// localPath returns a local name without file://.
func localPath(name string) string { return strings.TrimPrefix(name, "file://") }

// split returns the bucket and the key of an object's name. key is "" for a whole bucket.
func split(name string) (bucket, key string, err error) {
	_, rest, _ := strings.Cut(name, "://")
	bucket, key, _ = strings.Cut(rest, "/")
	key = strings.TrimSuffix(key, "/")
	if bucket == "" || key != "" && (path.Clean("/"+key) != "/"+key) {
		return "", "", &param.Error{
			Param: "name",
			Value: name,
			Rule:  "must be " + scheme(name) + "://bucket/key, without empty, . and .. parts",
		}
	}
	return bucket, key, nil
}

// Check reports a name that no store can have: its scheme is not registered, or it has no bucket.
func Check(name string) error {
	s, err := of(name)
	if err != nil {
		return err
	}
	if _, isLocal := s.(local); isLocal {
		if p := localPath(name); p == "" || p != name && !strings.HasPrefix(p, "/") {
			return param.Fault("name", fmt.Sprintf("%q", name), "must be a path, or file:///path")
		}
		return nil
	}
	_, _, err = split(name)
	return err
}

// Join appends slash-separated names to the name of a folder.
func Join(dir string, names ...string) string {
	if isLocal(dir) {
		return filepath.Join(localPath(dir), filepath.FromSlash(path.Join(names...)))
	}
	head, rest, _ := strings.Cut(dir, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	// The result stays within the bucket, whatever the names.
	key = strings.TrimPrefix(path.Join(slices.Concat([]string{"/" + key}, names)...), "/")
	return strings.TrimSuffix(head+"://"+bucket+"/"+key, "/")
}

// Dir returns the folder of a name; for a bucket, the bucket itself.
func Dir(name string) string {
	if isLocal(name) {
		return filepath.Dir(filepath.Clean(localPath(name)))
	}
	return Join(name, "..")
}

// Base returns the last part of a name.
func Base(name string) string {
	if isLocal(name) {
		return filepath.Base(localPath(name))
	}
	return path.Base(strings.TrimSuffix(name, "/"))
}

// Abs returns a name that means the same in every process of this machine.
func Abs(name string) (string, error) {
	if isLocal(name) {
		return filepath.Abs(localPath(name))
	}
	return Join(name), nil
}

// Real returns the canonical name of a folder: for a local one, which must exist, the absolute path
// without symbolic links; for others as [Abs].
func Real(dir string) (string, error) {
	if !isLocal(dir) {
		return Join(dir), nil
	}
	real, err := filepath.EvalSymlinks(localPath(dir))
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

// LinkTo returns the target of a local symbolic link. is reports whether name is one.
func LinkTo(name string) (to string, is bool) {
	if !isLocal(name) {
		return "", false
	}
	to, err := os.Readlink(localPath(name))
	return to, err == nil
}

// Resolved is [Real] for a folder that need not exist: of a missing folder it resolves the parent.
func Resolved(dir string) string {
	if real, err := Real(dir); err == nil {
		return real
	}
	abs, err := Abs(dir)
	if err != nil {
		return dir
	}
	if parent, err := Real(Dir(abs)); err == nil {
		return Join(parent, Base(abs))
	}
	return abs
}
