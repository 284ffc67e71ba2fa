package graphio

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the memory that a zstd file may ask its reader to keep.
const maxZstdWindow = 256 << 20

// decompressed is a compressed text.
type decompressed struct{ io.ReadCloser }

func (d decompressed) Read(b []byte) (n int, err error) {
	if n, err = d.ReadCloser.Read(b); err != nil && err != io.EOF {
		err = corrupt(err)
	}
	return n, err
}

// decompress reads the text of a file, compressed or not.
func decompress(f File, compression string) (io.ReadCloser, error) {
	r := io.NewSectionReader(f, 0, f.Size())
	switch compression {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, corrupt(err)
		}
		return decompressed{z}, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, corrupt(err)
		}
		return decompressed{z.IOReadCloser()}, nil
	}
	return io.NopCloser(r), nil
}

// corrupt puts a decompressor's error about a damaged file into words.
func corrupt(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("the compressed file is truncated")
	case errors.Is(err, gzip.ErrHeader),
		errors.Is(err, gzip.ErrChecksum),
		errors.Is(err, zstd.ErrCRCMismatch),
		errors.Is(err, zstd.ErrMagicMismatch):
		return errors.New("the compressed file is corrupt: " + err.Error())
	}
	return errors.New("the compressed file cannot be read: " + err.Error())
}
