package idcolumn

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The limits of a page, which are held against its header before memory is allocated for it.
const (
	maxPageBytes  = 256 << 20
	maxPageValues = 1 << 24
	// A page of more than freePageBytes must store at least one byte for pagePerByte of its own.
	freePageBytes = 96 << 20
	pagePerByte   = 200
)

var errLargePage = fmt.Errorf("a page of more than %d MiB or %d values", maxPageBytes>>20, maxPageValues)

var errDensePage = fmt.Errorf(
	"a page of more than %d MiB that stores less than one byte for each %d",
	freePageBytes>>20,
	pagePerByte,
)

// errCount is returned for a page that stores fewer values than its header says, or more. The
// library reads values that are missing from what its memory held before.
var errCount = fmt.Errorf("%w: a page stores fewer or more values than its header says", ErrCorrupt)

// pageReader reads the pages of a column chunk in order. Its buffers serve one page after another.
type pageReader struct {
	col      *Column
	file     *bufio.Reader // at the next page's header
	protocol thrift.CompactProtocol
	codec    compress.Codec // nil if pages are not compressed
	left     int64          // entries on later pages

	stored, plain []byte // a page as the file has it, and decompressed
	dict          values
	hasDict       bool

	// The page that was read last.
	entries    int
	reps, defs []byte // levels of the entries; empty in a column that needs none
	vals       values // the values, one for each entry that is not null; not of an indexed page
	indexed    bool   // index has the places of the values in dict
	index      []int32
}

// pages returns a reader of the pages of a column chunk.
func pages(f io.ReaderAt, c *Column, m *format.ColumnMetaData) *pageReader {
	section := io.NewSectionReader(f, chunkStart(m), m.TotalCompressedSize)
	p := &pageReader{
		col:  c,
		file: bufio.NewReaderSize(section, int(min(1<<16, m.TotalCompressedSize))),
		left: m.NumValues,
	}
	if m.Codec != format.Uncompressed {
		p.codec = parquet.LookupCompressionCodec(m.Codec)
	}
	return p
}

// chunkStart is where the pages of a column chunk begin.
func chunkStart(m *format.ColumnMetaData) int64 {
	if m.DictionaryPageOffset > 0 {
		return min(m.DataPageOffset, m.DictionaryPageOffset)
	}
	return m.DataPageOffset
}

// next reads the next page with entries, and the dictionary before it. io.EOF says that the chunk
// has no more entries.
func (p *pageReader) next() error {
	for p.entries = 0; p.entries == 0; {
		if p.left == 0 {
			return io.EOF
		}
		var h format.PageHeader
		if err := thrift.NewDecoder(p.protocol.NewReader(p.file)).Decode(&h); err != nil {
			return ErrCorrupt
		}
		if err := p.check(&h); err != nil {
			return err
		}
		p.stored = resize(p.stored, int(h.CompressedPageSize))
		if _, err := io.ReadFull(p.file, p.stored); err == io.EOF || err == io.ErrUnexpectedEOF {
			return ErrCorrupt
		} else if err != nil {
			return err
		}
		if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(p.stored) {
			return fmt.Errorf("%w: the checksum of a page differs", ErrCorrupt)
		}
		var err error
		switch h.Type {
		case format.DictionaryPage:
			err = p.readDictionary(&h)
		case format.DataPage:
			err = p.readV1(&h)
		case format.DataPageV2:
			err = p.readV2(&h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check holds a page's header against the limits and the footer.
func (p *pageReader) check(h *format.PageHeader) error {
	v1, v2 := &h.DataPageHeader.V, &h.DataPageHeaderV2.V
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || v1.NumValues < 0 || v2.NumValues < 0 {
		return ErrCorrupt
	}
	entries := int64(v1.NumValues) + int64(v2.NumValues)
	inDictionary := h.DictionaryPageHeader.V.NumValues // one byte each at least
	if entries > p.left || inDictionary < 0 || inDictionary > h.UncompressedPageSize {
		return ErrCorrupt
	}
	if h.UncompressedPageSize > maxPageBytes || h.CompressedPageSize > maxPageBytes || entries > maxPageValues {
		return errLargePage
	}
	if int64(h.UncompressedPageSize) > freePageBytes+pagePerByte*int64(h.CompressedPageSize) {
		return errDensePage
	}
	return nil
}

// decompress returns bytes of a page that are size bytes without compression.
func (p *pageReader) decompress(stored []byte, size int) ([]byte, error) {
	if size < 0 {
		return nil, ErrCorrupt
	}
	if p.codec == nil || size == 0 && len(stored) == 0 {
		return slices.Clip(stored), nil
	}
	p.plain = resize(p.plain, size)
	out, err := p.codec.Decode(p.plain, stored)
	if err != nil || len(out) != size {
		return nil, ErrCorrupt
	}
	return slices.Clip(out), nil
}

func (p *pageReader) readDictionary(h *format.PageHeader) error {
	src, err := p.decompress(p.stored, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	p.hasDict = true
	return p.dict.decode(p.col, format.Plain, src, int(h.DictionaryPageHeader.V.NumValues))
}

// readV1 reads a data page of the first version: its levels, each with its length before it, and
// its values are compressed together.
func (p *pageReader) readV1(h *format.PageHeader) (err error) {
	v1 := &h.DataPageHeader.V
	src, err := p.decompress(p.stored, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	var parts [2][]byte
	for i, of := range []struct {
		max      byte
		encoding format.Encoding
	}{{p.col.maxRep, v1.RepetitionLevelEncoding}, {p.col.maxDef, v1.DefinitionLevelEncoding}} {
		if of.max == 0 {
			continue
		}
		if of.encoding != format.RLE {
			return fmt.Errorf("levels in the encoding %v are not read", of.encoding)
		}
		if len(src) < 4 || int64(binary.LittleEndian.Uint32(src)) > int64(len(src)-4) {
			return ErrCorrupt
		}
		end := 4 + int(binary.LittleEndian.Uint32(src))
		parts[i], src = src[4:end:end], src[end:]
	}
	return p.readData(int(v1.NumValues), parts[0], parts[1], src, v1.Encoding)
}

// readV2 reads a data page of the second version: only its values are compressed.
func (p *pageReader) readV2(h *format.PageHeader) error {
	v2 := &h.DataPageHeaderV2.V
	reps, defs := int64(v2.RepetitionLevelsByteLength), int64(v2.DefinitionLevelsByteLength)
	if reps < 0 || defs < 0 || reps+defs > int64(len(p.stored)) {
		return ErrCorrupt
	}
	src := slices.Clip(p.stored[reps+defs:])
	if compressed := !v2.IsCompressed.Valid || v2.IsCompressed.V; compressed {
		var err error
		if src, err = p.decompress(src, int(int64(h.UncompressedPageSize)-reps-defs)); err != nil {
			return err
		}
	}
	return p.readData(
		int(v2.NumValues),
		p.stored[:reps:reps],
		p.stored[reps:reps+defs:reps+defs],
		src,
		v2.Encoding,
	)
}

// readData decodes the levels and values of a page.
func (p *pageReader) readData(entries int, reps, defs, src []byte, encoding format.Encoding) (err error) {
	if p.reps, err = levels(p.reps, reps, p.col.maxRep, entries); err != nil {
		return err
	}
	if p.defs, err = levels(p.defs, defs, p.col.maxDef, entries); err != nil {
		return err
	}
	stored := entries
	for _, d := range p.defs {
		if d != p.col.maxDef {
			stored--
		}
	}
	p.entries = entries
	p.left -= int64(entries)
	//lint:ignore SA1019 older writers name the encoding of dictionary indices so
	p.indexed = encoding == format.RLEDictionary || encoding == format.PlainDictionary
	if !p.indexed {
		return p.vals.decode(p.col, encoding, src, stored)
	}
	p.index = p.index[:0]
	if stored == 0 {
		return nil
	}
	if !p.hasDict || len(src) == 0 {
		return ErrCorrupt
	}
	runs, err := firstRuns(src[1:], uint(src[0]), stored)
	if err != nil {
		return err
	}
	p.index, err = parquet.RLEDictionary.DecodeInt32(p.index, src[:1+runs:1+runs])
	if err != nil || len(p.index) < stored {
		return errCount
	}
	p.index = p.index[:stored]
	return nil
}

// levels decodes the levels of a page's entries, each at most max, into dst.
func levels(dst, src []byte, max byte, entries int) ([]byte, error) {
	if max == 0 {
		return dst[:0], nil
	}
	width := bits.Len8(max)
	runs, err := firstRuns(src, uint(width), entries)
	if err != nil {
		return dst, err
	}
	encoding := parquet.RLE
	encoding.BitWidth = width
	if dst, err = encoding.DecodeLevels(dst, src[:runs:runs]); err != nil || len(dst) < entries {
		return dst, errCount
	}
	if dst = dst[:entries]; entries > 0 && slices.Max(dst) > max {
		return dst, ErrCorrupt
	}
	return dst, nil
}

// resize returns a slice of n bytes, in the memory of b if that is large enough.
func resize(b []byte, n int) []byte { return slices.Grow(b[:0], n)[:n] }
