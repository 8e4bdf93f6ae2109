package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// A Failure is an error with the class that the tools print before its text.
type Failure struct {
	Kind string // class, for instance "ConnectionException"
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the error without its class.
func (f *Failure) Unwrap() error { return f.Err }

// Failf returns a Failure of that class. The format is that of fmt.Errorf.
func Failf(kind, format string, args ...any) error {
	return &Failure{kind, fmt.Errorf(format, args...)}
}

// Classes of the errors raised here (MG 11.5). Their spelling is that of the
// exceptions of the old tools, which scripts look for.
const (
	connectionFailed = "ConnectionException" // no connection, or lost; TLS and SASL failures too
	connectionClosed = "ConnectionClosed"    // the router closed the connection
	linkDetached     = "LinkDetached"        // the router refused or closed a link
	sendFailed       = "SendException"       // the request was not accepted
	timedOut         = "Timeout"
	badCertificate   = "SSLException" // a file with certificates or a key is of no use
	badValue         = "ValueError"
)

// A StatusError is the refusal of a request by the agent.
type StatusError struct {
	Status      int    // statusCode
	Description string // statusDescription
}

func (e *StatusError) Error() string { return e.Description }

// Class is the word of MG 8.1 for the status.
func (e *StatusError) Class() string {
	switch e.Status {
	case StatusBadRequest:
		return "BadRequestStatus"
	case StatusUnauthorized:
		return "UnauthorizedStatus"
	case StatusForbidden:
		return "ForbiddenStatus"
	case StatusNotFound:
		return "NotFoundStatus"
	case StatusInternalServerError:
		return "InternalServerErrorStatus"
	case StatusNotImplemented:
		return "NotImplementedStatus"
	}
	return "ManagementError"
}

// Status codes of replies (MG 8.1).
const (
	StatusOK                  = 200
	StatusCreated             = 201
	StatusNoContent           = 204
	StatusBadRequest          = 400
	StatusUnauthorized        = 401
	StatusForbidden           = 403
	StatusNotFound            = 404
	StatusInternalServerError = 500
	StatusNotImplemented      = 501
)

// Class is the word printed before the text of err (MG 11.5).
func Class(err error) string {
	var failure *Failure
	var status *StatusError
	switch {
	case errors.As(err, &status):
		return status.Class()
	case errors.As(err, &failure):
		return failure.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut
	case errors.Is(err, fs.ErrNotExist):
		return "FileNotFoundError"
	case errors.Is(err, fs.ErrPermission):
		return "PermissionError"
	}
	return "Error"
}
