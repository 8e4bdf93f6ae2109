package management

import (
	"errors"
	"fmt"
	"strings"

	"qdrouter/config"
)

// Status codes of a reply (MG 8.1).
const (
	StatusOK            = 200 // READ, UPDATE, QUERY, GET-*, custom operations
	StatusCreated       = 201 // CREATE
	StatusNoContent     = 204 // DELETE
	StatusBadRequest    = 400 // malformed, invalid, duplicate, conflicting
	StatusForbidden     = 403 // refused whatever the values (MG 9)
	StatusNotFound      = 404 // no such entity, or an unknown attribute in QUERY
	StatusInternalError = 500 // a failure while applying
	StatusNotSupported  = 501 // the type does not have the operation
)

// An Error is a refused request: the status code and description of its reply.
type Error struct {
	Status      int
	Description string
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Description) }

func badRequest(format string, args ...any) *Error {
	return &Error{StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *Error {
	return &Error{StatusNotFound, fmt.Sprintf(format, args...)}
}

func internalError(format string, args ...any) *Error {
	return &Error{StatusInternalError, fmt.Sprintf(format, args...)}
}

func notSupported(format string, args ...any) *Error {
	return &Error{StatusNotSupported, fmt.Sprintf(format, args...)}
}

// errForbidden refuses what no policy can allow (MG 9, point 4).
var errForbidden = &Error{StatusForbidden, "Forbidden"}

// asError gives the reply for any error: one the agent made itself says its
// status, everything unforeseen is an internal error with its own text (MG 4.0).
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{StatusInternalError, err.Error()}
}

// oneLine gives the text of an error that may join several, each with the
// attribute it is about.
func oneLine(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, err := range joined.Unwrap() {
			texts = append(texts, oneLine(err))
		}
		return strings.Join(texts, "; ")
	}
	text := err.Error()
	var attr *config.AttrError
	if errors.As(err, &attr) && attr.Attr != "" &&
		!strings.Contains(text, "'"+attr.Attr+"'") && !strings.Contains(text, attr.Attr+"=") {
		text += " for attribute '" + attr.Attr + "'"
	}
	return text
}
