#pragma once

// Private to mir/support: the grammar that the printer and the parser of expressions share.
//
//   or  <  and  <  not  <  < <= == (and > >= !=)  <  + -  <  * / // %  <  unary -  <  primary
//   primary: number | inf | nan | true | false | name | name[e, …] | function(e, …) | type(e) | where(c, a, b) | (e)
//   name:    letters, digits, '_', a prime "m'", dotted parts "a.m"; any other name stands in backticks, doubled
//   inside.

#include <array>
#include <string_view>

#include "mir/support/expr.h"

namespace aicf::expr_syntax {

inline constexpr int or_precedence = 1;
inline constexpr int and_precedence = 2;
inline constexpr int not_precedence = 3;
inline constexpr int comparison_precedence = 4;
inline constexpr int additive_precedence = 5;
inline constexpr int multiplicative_precedence = 6;
inline constexpr int unary_precedence = 7;
inline constexpr int primary_precedence = 8;

struct Infix {
  std::string_view text;
  Op op;
  int precedence;
  bool swapped = false;  ///< a > b is b < a
  bool negated = false;  ///< a != b is not (a == b)
};

// Longer spellings first: the parser takes the first that matches.
inline constexpr std::array<Infix, 14> infix_table{{
    {"or", Op::or_, or_precedence},
    {"and", Op::and_, and_precedence},
    {"<=", Op::le, comparison_precedence},
    {"==", Op::eq, comparison_precedence},
    {">=", Op::le, comparison_precedence, true},
    {"!=", Op::eq, comparison_precedence, false, true},
    {"<", Op::lt, comparison_precedence},
    {">", Op::lt, comparison_precedence, true},
    {"+", Op::add, additive_precedence},
    {"-", Op::sub, additive_precedence},
    {"//", Op::floordiv, multiplicative_precedence},
    {"*", Op::mul, multiplicative_precedence},
    {"/", Op::div, multiplicative_precedence},
    {"%", Op::mod, multiplicative_precedence},
}};

/// The spelling that the printer uses, or null for operations written as functions.
const Infix* infix_of(Op op);

/// Length of the plain name at the start of `text`, 0 when there is none.
std::size_t plain_name_length(std::string_view text);
bool is_name_start(char c);
bool is_name_part(char c);
bool is_reserved(std::string_view name);
bool is_plain_name(std::string_view name);

/// Expressions whose text alone does not fix their type: constants, and selects between such.
bool is_literal(const Expr& e);

}  // namespace aicf::expr_syntax
