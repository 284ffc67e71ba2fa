package objectstores

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
)

// Checksums adds checksums of whole objects to a fake of S3 that has none. As S3 does, it refuses
// an object that does not match the checksum it was sent with, and returns an object's checksum on
// request.
type Checksums struct{ Service http.Handler }

const checksumHeader = "X-Amz-Checksum-Crc32c"

func checksumOf(b []byte) string {
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (c Checksums) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch sent := r.Header.Get(checksumHeader); {
	case r.Method == http.MethodPut && sent != "":
		b, err := io.ReadAll(r.Body)
		if err != nil || checksumOf(b) != sent {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, "<Error><Code>BadDigest</Code></Error>")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
	case r.Method == http.MethodHead && r.Header.Get("X-Amz-Checksum-Mode") != "":
		whole := httptest.NewRecorder()
		c.Service.ServeHTTP(whole, httptest.NewRequest(http.MethodGet, r.URL.Path, nil))
		if whole.Code == http.StatusOK {
			w.Header().Set(checksumHeader, checksumOf(whole.Body.Bytes()))
			w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
		}
	}
	c.Service.ServeHTTP(w, r)
}
