package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// DType is the element type of an .npy file, as NumPy spells it. All types are little endian.
type DType string

const (
	DInt32   DType = "<i4"
	DInt64   DType = "<i8"
	DFloat32 DType = "<f4"
	DFloat64 DType = "<f8"
)

// Size returns the size of an element in bytes; 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case DInt32, DFloat32:
		return 4
	case DInt64, DFloat64:
		return 8
	}
	return 0
}

// NPYHeader is the header of an .npy file (NumPy's format 1.0) in C order. The elements follow it.
type NPYHeader struct {
	DType DType // of the elements
	Shape []int // one or two dimensions, each at least 0

	bytes int64 // of the header, after it was read
}

// Elements returns the number of elements, the product of the shape.
func (h NPYHeader) Elements() int {
	n := 1
	for _, d := range h.Shape {
		n *= d
	}
	return n
}

const (
	npyMagic = "\x93NUMPY\x01\x00"
	npyStart = len(npyMagic) + 2 // bytes before the dictionary
)

// Write writes the header, padded so that the elements begin at a multiple of 64 bytes.
func (h NPYHeader) Write(w io.Writer) error {
	dims := make([]string, len(h.Shape))
	for i, d := range h.Shape {
		dims[i] = strconv.Itoa(d)
	}
	shape := strings.Join(dims, ", ")
	if len(dims) == 1 {
		shape += ","
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", h.DType, shape)
	length := (npyStart+len(dict)+1+63)/64*64 - npyStart
	b := binary.LittleEndian.AppendUint16([]byte(npyMagic), uint16(length))
	_, err := w.Write(fmt.Appendf(b, "%-*s\n", length-1, dict))
	return err
}

var npyDict = regexp.MustCompile(
	`^\{'descr': '([<>|=]?[a-z][0-9]+)', 'fortran_order': (True|False), 'shape': \(([0-9]+)(?:,|, ([0-9]+))\), \} *\n$`,
)

// maxNPYElements bounds the number of elements, so that no size computed from a header overflows.
const maxNPYElements = 1 << 48

// ErrNPYObjects means that an .npy file holds Python objects, which only Python can read.
var ErrNPYObjects = errors.New("npy header: element type object")

// ReadNPYHeader reads the header of an .npy file as NumPy or [NPYHeader.Write] writes it. The file
// must have one or two dimensions, in C order.
func ReadNPYHeader(r io.Reader) (NPYHeader, error) {
	var h NPYHeader
	var head [npyStart]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h, fmt.Errorf("npy header: %w", err)
	}
	if string(head[:len(npyMagic)]) != npyMagic {
		return h, fmt.Errorf("not an .npy file of format 1.0")
	}
	dict := make([]byte, binary.LittleEndian.Uint16(head[len(npyMagic):]))
	if _, err := io.ReadFull(r, dict); err != nil {
		return h, fmt.Errorf("npy header: %w", err)
	}
	h.bytes = int64(npyStart + len(dict))
	if bytes.Contains(dict, []byte("'descr': '|O'")) {
		return h, ErrNPYObjects
	}
	m := npyDict.FindSubmatch(dict)
	if m == nil || string(m[2]) == "True" {
		return h, fmt.Errorf("npy header: must be of one or two dimensions in C order")
	}
	h.DType = DType(m[1])
	if h.DType.Size() == 0 {
		return h, fmt.Errorf("npy header: element type %q: must be one of <i4, <i8, <f4, <f8", m[1])
	}
	total := 1
	for _, d := range m[3:] {
		if d == nil {
			continue
		}
		v, err := strconv.Atoi(string(d))
		if err != nil || v > maxNPYElements || (v > 0 && total > maxNPYElements/v) {
			return h, fmt.Errorf("npy header: shape has too many elements")
		}
		total *= v
		h.Shape = append(h.Shape, v)
	}
	return h, nil
}

// NPYInts reads a one-dimensional .npy file of int32 or int64 from start to end.
type NPYInts struct {
	r     io.Reader
	dtype DType
	left  int
}

// NewNPYInts reads the header. size is the length of the file in bytes, which must match the
// header.
func NewNPYInts(r io.Reader, size int64) (*NPYInts, error) {
	h, err := ReadNPYHeader(r)
	if err != nil {
		return nil, err
	}
	if len(h.Shape) != 1 || (h.DType != DInt32 && h.DType != DInt64) {
		return nil, fmt.Errorf(
			"npy of %s with %d dimensions: must be int32 or int64 with one",
			h.DType,
			len(h.Shape),
		)
	}
	if size != h.bytes+int64(h.Elements())*int64(h.DType.Size()) {
		return nil, fmt.Errorf("npy file: its size does not fit its header")
	}
	return &NPYInts{r, h.DType, h.Elements()}, nil
}

// Len returns the number of elements that are left.
func (x *NPYInts) Len() int { return x.left }

// Read fills dst with the next elements. It is an error if fewer are left.
func (x *NPYInts) Read(dst []int64) error {
	if len(dst) > x.left {
		return fmt.Errorf("npy: has fewer elements than are wanted")
	}
	x.left -= len(dst)
	if x.dtype == DInt64 {
		return binary.Read(x.r, binary.LittleEndian, dst)
	}
	short := make([]int32, len(dst))
	err := binary.Read(x.r, binary.LittleEndian, short)
	for i, v := range short {
		dst[i] = int64(v)
	}
	return err
}
