// Package security decides who may come in: which SASL mechanisms a listener
// offers and a connector uses, and whose password is right (CFG sections 5.1 to
// 5.3). The exchange itself is package amqp/sasl.
//
// LoadSASL reads the SASL configuration once; the result is safe for concurrent
// use. Credentials are read again whenever their file changes.
//
// Nothing runs more open than its file says. What a listener demands and this
// version cannot do is named by SASL.Refusal, and such a listener must refuse
// every connection.
package security
