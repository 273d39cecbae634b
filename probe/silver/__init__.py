"""Sentences, trees and tags that a parser makes of plain text, and tasks made from them."""
