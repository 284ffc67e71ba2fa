// Package s3 registers s3://bucket/key, objects of Amazon S3 and of stores with the same protocol,
// with package store.
//
// Region and credentials come from the environment and files of the AWS tools. AWS_ENDPOINT_URL_S3
// or AWS_ENDPOINT_URL names another store; its buckets are then addressed by path. A read asks for
// the ETag that was opened. A written object appears when its upload is closed, under a condition
// if one is asked for: that the object does not exist (If-None-Match) or has a given ETag
// (If-Match). The store must support such conditions. Uploads carry their CRC-32C.
package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"minsep/internal/store"
)

// init registers the scheme s3.
func init() {
	store.Register("s3", func() (store.FS, error) { return New(context.Background(), store.Limits{}) })
}

// maxParts is the largest number of parts that S3 accepts in an upload (Amazon S3 User Guide,
// "multipart upload limits").
const maxParts = 10_000

// New returns the store that the environment configures.
func New(ctx context.Context, limits store.Limits) (*store.Objects, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}), // faults are returned as errors
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} })) // package store retries
	if err != nil {
		return nil, err
	}
	if c.Region == "" {
		c.Region = "us-east-1" // used to sign requests; S3 itself answers with the bucket's region
	}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = os.Getenv("AWS_ENDPOINT_URL_S3") != "" || os.Getenv("AWS_ENDPOINT_URL") != ""
		// This package sends its own checksums, below: other stores do not know the trailers in
		// which the client library would send them.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return &store.Objects{Scheme: "s3", Service: service{client}, Limits: limits, MaxParts: maxParts}, nil
}

// writerKey is the key of the metadata that holds the Writer of a [store.Condition].
const writerKey = "minsep-writer"

// service implements [store.Service] with Amazon's client library.
type service struct{ client *s3.Client }

// temporary has the library's rules for errors that are worth a retry.
var temporary = retry.IsErrorRetryables(retry.DefaultRetryables)

// Temporary reports whether a request is worth repeating: after errors that the client library
// itself would repeat, after an answer that there are too many requests, and after damaged data.
func (service) Temporary(err error) bool {
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && answer.HTTPStatusCode() == http.StatusTooManyRequests {
		return true
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && (api.ErrorCode() == "BadDigest" || api.ErrorCode() == "XAmzContentChecksumMismatch") {
		return true
	}
	return temporary.IsErrorRetryable(err) == aws.TrueTernary
}

// Stat returns size, ETag, writer and checksum of an object.
func (s service) Stat(ctx context.Context, bucket, key string) (store.Object, error) {
	h, err := s.client.HeadObject(
		ctx,
		&s3.HeadObjectInput{Bucket: &bucket, Key: &key, ChecksumMode: types.ChecksumModeEnabled},
	)
	if err != nil {
		return store.Object{}, kind(err)
	}
	if h.ContentLength == nil || h.ETag == nil {
		return store.Object{}, errors.New("the store gives neither size nor ETag")
	}
	o := store.Object{Size: *h.ContentLength, Version: *h.ETag}
	for k, v := range h.Metadata {
		if strings.EqualFold(k, writerKey) {
			o.Writer = v
		}
	}
	if h.ChecksumCRC32C != nil && h.ChecksumType != types.ChecksumTypeComposite {
		if b, err := base64.StdEncoding.DecodeString(*h.ChecksumCRC32C); err == nil && len(b) == 4 {
			sum := binary.BigEndian.Uint32(b)
			o.CRC32C = &sum
		}
	}
	return o, nil
}

// Read reads a range of the ETag that was opened.
func (s service) Read(ctx context.Context, bucket, key string, o store.Object, at int64, dst []byte) (int, error) {
	got, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key, IfMatch: &o.Version,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", at, at+int64(len(dst))-1))})
	if err = kind(err); errors.Is(err, fs.ErrNotExist) { // it existed when it was opened
		return 0, store.ErrCondition
	}
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	if aws.ToString(got.ETag) != o.Version { // the store ignored If-Match
		return 0, store.ErrCondition
	}
	if want := fmt.Sprintf("bytes %d-%d/%d", at, at+int64(len(dst))-1, o.Size); aws.ToString(got.ContentRange) != want {
		return 0, fmt.Errorf("asked for %s, the store gave %q", want, aws.ToString(got.ContentRange))
	}
	n, err := io.ReadFull(got.Body, dst)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// List returns one page of names.
func (s service) List(ctx context.Context, bucket, prefix, token string) (page store.Page, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix, Delimiter: aws.String("/")}
	if token != "" {
		in.ContinuationToken = &token
	}
	list, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return page, kind(err)
	}
	for _, p := range list.CommonPrefixes {
		page.Folders = append(page.Folders, aws.ToString(p.Prefix))
	}
	for _, o := range list.Contents {
		page.Keys = append(page.Keys, aws.ToString(o.Key))
	}
	if aws.ToBool(list.IsTruncated) {
		if page.Next = aws.ToString(list.NextContinuationToken); page.Next == "" {
			return page, errors.New("the store's list goes on, but the store does not say where")
		}
	}
	return page, nil
}

// conditions returns the HTTP headers of a condition; nil leaves a header out.
func conditions(c store.Condition) (ifMatch, ifNoneMatch *string) {
	if c.Replaces != "" {
		ifMatch = &c.Replaces
	}
	if c.New {
		ifNoneMatch = aws.String("*")
	}
	return ifMatch, ifNoneMatch
}

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of data in the form of the protocol: base64 of 4 bytes, big endian.
func checksum(data []byte) *string {
	return aws.String(
		base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli))),
	)
}

// Put writes an object in one request, with its CRC-32C.
func (s service) Put(ctx context.Context, bucket, key string, data []byte, c store.Condition) error {
	in := &s3.PutObjectInput{
		Bucket:        &bucket,
		Key:           &key,
		Body:          bytes.NewReader(data),
		ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String(
			"application/octet-stream",
		),
		ChecksumCRC32C: checksum(data),
		Metadata:       map[string]string{writerKey: c.Writer},
	}
	in.IfMatch, in.IfNoneMatch = conditions(c)
	_, err := s.client.PutObject(ctx, in)
	return kind(err)
}

// upload is a multipart upload.
type upload struct {
	service
	bucket, key, id string
	condition       store.Condition
	parts           []types.CompletedPart
}

// Upload begins a multipart upload.
func (s service) Upload(ctx context.Context, bucket, key string, c store.Condition) (store.Upload, error) {
	got, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &bucket,
		Key:    &key,
		ContentType: aws.String(
			"application/octet-stream",
		),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
		ChecksumType:      types.ChecksumTypeFullObject,
		Metadata:          map[string]string{writerKey: c.Writer},
	})
	if err != nil {
		return nil, kind(err)
	}
	return &upload{service: s, bucket: bucket, key: key, id: aws.ToString(got.UploadId), condition: c}, nil
}

// Part sends a part. A part that is sent again takes the place of the first.
func (u *upload) Part(ctx context.Context, number int, data []byte) error {
	n := int32(number)
	sum := checksum(data)
	got, err := u.client.UploadPart(
		ctx,
		&s3.UploadPartInput{Bucket: &u.bucket, Key: &u.key, UploadId: &u.id, PartNumber: &n,
			Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))), ChecksumCRC32C: sum},
	)
	if err == nil {
		u.parts = append(
			u.parts[:number-1],
			types.CompletedPart{PartNumber: &n, ETag: got.ETag, ChecksumCRC32C: sum},
		)
	}
	return kind(err)
}

// Complete makes the object appear, under the condition.
func (u *upload) Complete(ctx context.Context) error {
	in := &s3.CompleteMultipartUploadInput{
		Bucket:          &u.bucket,
		Key:             &u.key,
		UploadId:        &u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	}
	in.IfMatch, in.IfNoneMatch = conditions(u.condition)
	_, err := u.client.CompleteMultipartUpload(ctx, in)
	return kind(err)
}

// Abort removes the parts.
func (u *upload) Abort(ctx context.Context) error {
	_, err := u.client.AbortMultipartUpload(
		ctx,
		&s3.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &u.key, UploadId: &u.id},
	)
	return err
}

// Delete removes an object.
func (s service) Delete(ctx context.Context, bucket, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	return kind(err)
}

// kind wraps err with the sentinel error of package store or io/fs that it corresponds to.
func kind(err error) error {
	code, status := "", 0
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = answer.HTTPStatusCode()
	}
	switch {
	case err == nil:
		return nil
	case status == http.StatusPreconditionFailed || code == "PreconditionFailed":
		return fmt.Errorf("%w: %w", store.ErrCondition, err)
	case status == http.StatusNotFound && code != "NoSuchUpload":
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}
