package graphio

import (
	"bytes"
	"io"
	"path"
	"slices"
	"strings"
)

// format is a format of files. Each is declared in the file of its part of a [Split], and listed in
// formats.
type format struct {
	name       string   // as in [Options] and in splits
	title      string   // in sentences
	extensions []string // of files' names
	magic      []string // a file begins with one of them; nil: text, which may be compressed
	magicRule  string   // for a file that does not

	look func(in *inspected, f File, o *Options) *Fault // at the beginning of a file: the columns, the types of ids, and the part of the split
}

// formats are all formats, in the order in which messages name them.
var formats = []*format{&csvFormat, &tsvFormat, &parquetFormat}

// Formats are the names of the formats.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// formatNamed returns the format of a name; nil if there is none.
func formatNamed(name string) *format {
	i := slices.IndexFunc(formats, func(f *format) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return formats[i]
}

// part is all that a format needs to read a file.
type part interface {
	read(s *Split, f File, b *batcher) error
	rows(f File) (int64, error)
}

var compressions = []struct {
	name, magic string
	extensions  []string
}{
	{"gzip", "\x1f\x8b", []string{".gz", ".gzip"}},
	{"zstd", "\x28\xb5\x2f\xfd", []string{".zst", ".zstd"}},
}

// sniff returns the compression of a file, or its format, from its first bytes; neither for text.
func sniff(f File) (compression string, is *format, err error) {
	var head [4]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return "", nil, cause(err)
	}
	begins := func(magic string) bool { return bytes.HasPrefix(head[:n], []byte(magic)) }
	for _, c := range compressions {
		if begins(c.magic) {
			return c.name, nil, nil
		}
	}
	for _, is := range formats {
		if slices.ContainsFunc(is.magic, begins) {
			return "", is, nil
		}
	}
	if n == 4 && head[0]>>4 == 5 && string(head[1:]) == "\x2a\x4d\x18" { // a skippable frame
		return "zstd", nil, nil
	}
	return "", nil, nil
}

// byName returns the format and the compression that a file's name tells; nil and "" if it tells
// none.
func byName(name string) (is *format, compression string) {
	end := strings.ToLower(path.Ext(name))
	for _, c := range compressions {
		if slices.Contains(c.extensions, end) {
			compression = c.name
			end = strings.ToLower(path.Ext(strings.TrimSuffix(name, path.Ext(name))))
			break
		}
	}
	for _, f := range formats {
		if slices.Contains(f.extensions, end) {
			return f, compression
		}
	}
	return nil, compression
}

// nameRule returns the rule that lists the endings of names for each format.
func nameRule() string {
	var ends []string
	for _, f := range formats {
		ends = append(ends, f.extensions[0])
	}
	return "use " + eitherOf(ends) + ", or set --format; write a table of another program, or JSON, as CSV first"
}

// namesOfTexts are the names of formats that are text.
func namesOfTexts() (names []string) {
	for _, f := range formats {
		if f.magic == nil {
			names = append(names, f.name)
		}
	}
	return names
}

// eitherOf joins a list as in a sentence: a, b or c.
func eitherOf(list []string) string {
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
