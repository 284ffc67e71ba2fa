package idcolumn

import (
	"bufio"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The library allocates the size in a page's header before it looks at the page, so headers are
// read beforehand and held against these.
const (
	maxPageBytes  = 256 << 20
	maxPageValues = 1 << 24
	// A page of more than freePageBytes must store at least one byte for pagePerByte of its own.
	freePageBytes = 96 << 20
	pagePerByte   = 200
)

var errLargePage = fmt.Errorf("a page of more than %d MiB or %d values", maxPageBytes>>20, maxPageValues)

var errDensePage = fmt.Errorf("a page of more than %d MiB that stores less than one byte for each %d", freePageBytes>>20, pagePerByte)

// checkPages reads the headers of a column chunk's pages.
func checkPages(f io.ReaderAt, m *format.ColumnMetaData) error {
	at := chunkStart(m)
	end := at + m.TotalCompressedSize
	section := io.NewSectionReader(f, 0, end)
	buffered := bufio.NewReaderSize(section, 1<<10)
	var protocol thrift.CompactProtocol
	for left := m.NumValues; left > 0; {
		if _, err := section.Seek(at, io.SeekStart); err != nil {
			return err
		}
		buffered.Reset(section)
		var h format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(buffered)).Decode(&h); err != nil {
			return ErrCorrupt
		}
		offset, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		at = offset - int64(buffered.Buffered()) + int64(h.CompressedPageSize)
		if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || at > end {
			return ErrCorrupt
		}
		values := int64(h.DataPageHeader.V.NumValues) + int64(h.DataPageHeaderV2.V.NumValues)
		entries := int64(h.DictionaryPageHeader.V.NumValues) // one byte each at least
		if values < 0 || values > left || entries < 0 || entries > int64(h.UncompressedPageSize) {
			return ErrCorrupt
		}
		if h.UncompressedPageSize > maxPageBytes || values > maxPageValues {
			return errLargePage
		}
		if int64(h.UncompressedPageSize) > freePageBytes+pagePerByte*int64(h.CompressedPageSize) {
			return errDensePage
		}
		left -= values
	}
	return nil
}

// chunkStart is where the pages of a column chunk begin.
func chunkStart(m *format.ColumnMetaData) int64 {
	if m.DictionaryPageOffset > 0 {
		return min(m.DataPageOffset, m.DictionaryPageOffset)
	}
	return m.DataPageOffset
}
