package graphio

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the memory that a zstd file may ask its reader to keep.
const maxZstdWindow = 256 << 20

var magics = []struct{ compression, magic string }{
	{"gzip", "\x1f\x8b"},
	{"zstd", "\x28\xb5\x2f\xfd"},
	{Parquet, "PAR1"},
	{Parquet, "PARE"},
}

// sniff returns "gzip", "zstd", Parquet or "" from the first bytes of a file.
func sniff(f File) (string, error) {
	var head [4]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return "", cause(err)
	}
	for _, m := range magics {
		if bytes.HasPrefix(head[:n], []byte(m.magic)) {
			return m.compression, nil
		}
	}
	if n == 4 && head[0]>>4 == 5 && string(head[1:]) == "\x2a\x4d\x18" { // a skippable frame
		return "zstd", nil
	}
	return "", nil
}

var extensions = map[string]string{
	".csv": CSV,
	".tsv": TSV, ".tab": TSV, ".txt": TSV,
	".ndjson": NDJSON, ".jsonl": NDJSON, ".json": NDJSON,
	".parquet": Parquet, ".pq": Parquet,
	".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd",
}

// byName returns the format and the compression that a file's name tells.
func byName(name string) (format, compression string) {
	ext := func() string { return extensions[strings.ToLower(path.Ext(name))] }
	if e := ext(); e == "gzip" || e == "zstd" {
		compression = e
		name = name[:len(name)-len(path.Ext(name))]
	}
	if e := ext(); e != "gzip" && e != "zstd" {
		format = e
	}
	return format, compression
}

// decompress reads the text of a file, compressed or not. One that is too long for the file's size
// ends with errDense.
func decompress(f File, compression string) (io.ReadCloser, error) {
	r := io.NewSectionReader(f, 0, f.Size())
	switch compression {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, corrupt(err)
		}
		return &bounded{z, mostText(f.Size())}, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, corrupt(err)
		}
		return &bounded{z.IOReadCloser(), mostText(f.Size())}, nil
	}
	return io.NopCloser(r), nil
}

// corrupt puts a decompressor's error about a damaged file into words.
func corrupt(err error) error {
	switch {
	case err == errDense:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the compressed file is truncated")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch), errors.Is(err, zstd.ErrMagicMismatch):
		return errors.New("the compressed file is corrupt: " + err.Error())
	}
	return errors.New("the compressed file cannot be read: " + err.Error())
}
