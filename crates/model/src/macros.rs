//! The declarations of the configuration: one text per type from which the type, its defaults, its decoder, its JSON
//! Schema and its documentation come, so that none of them can differ from the others.

/// Declares configuration types. A field is `pub name: Type = default`, or without a default where it must be given.
///
/// Before a struct's or enum's body may stand `short("what", function)`, for a form that is not the full map, and
/// `check(function)`, for what no single field can tell.
macro_rules! config {
    // every field has a default: so has the whole
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? = $default:expr
            ),* $(,)?
        }
    ) => {
        config! { @struct
            $(#[doc = $doc])*
            pub struct $name $(short($label, $short))? $(check($check))? {
                $($(#[doc = $fdoc])* $(#[range($lo, $hi)])? pub $field : $type $(as $rename)? = $default),*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
    // some field must be given
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        config! { @struct
            $(#[doc = $doc])*
            pub struct $name $(short($label, $short))? $(check($check))? {
                $($(#[doc = $fdoc])* $(#[range($lo, $hi)])? pub $field : $type $(as $rename)? $(= $default)?),*
            }
        }
    };
    (@struct
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(short($label:literal, $short:path))? $(check($check:path))? {
            $(
                $(#[doc = $fdoc:literal])*
                $(#[range($lo:literal, $hi:literal)])?
                pub $field:ident : $type:ty $(as $rename:literal)? $(= $default:expr)?
            ),*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $fdoc])* pub $field: $type),*
        }

        impl $crate::setting::Setting for $name {
            const OFF_IS_NONE: bool = true;

            fn decode(node: &$crate::node::Node, cx: &mut $crate::setting::Context<'_>) -> Option<Self> {
                $(if !node.is_map() {
                    return $short(node, cx);
                })?
                let of = stringify!($name);
                let fields = [$(config!(@key $field $($rename)?)),*];
                let good = $crate::setting::check_fields(node, of, &fields, cx);
                if !node.is_map() {
                    return None;
                }
                $(let $field: Option<$type> = match node.get(config!(@key $field $($rename)?)) {
                    Some(node) => {
                        let value = <$type as $crate::setting::Setting>::decode(node, cx);
                        $(let value = value.and_then(|value| {
                            $crate::setting::in_range(value, node, $lo as f64, $hi as f64, cx)
                        });)?
                        value
                    }
                    None => config!(@absent node, of, config!(@key $field $($rename)?), cx $(, $default)?),
                };)*
                let value = Self { $($field: $field?),* };
                $(let good = $check(&value, node, cx) && good;)?
                good.then_some(value)
            }

            fn encode(&self) -> serde_json::Value {
                let fields = [$((
                    config!(@key $field $($rename)?).to_owned(),
                    $crate::setting::Setting::encode(&self.$field),
                )),*];
                serde_json::Value::Object(fields.into_iter().collect())
            }

            fn shape() -> $crate::shape::Shape {
                #[allow(unused_mut, unused_assignments, reason = "only some have a short form")]
                let mut short: Option<&'static str> = None;
                $(short = Some($label);)?
                $crate::shape::Shape::Struct($crate::shape::Struct {
                    name: stringify!($name),
                    doc: $crate::shape::doc(&[$($doc),*]),
                    short,
                    fields: vec![$($crate::shape::Field {
                        name: config!(@key $field $($rename)?),
                        doc: $crate::shape::doc(&[$($fdoc),*]),
                        shape: <$type as $crate::setting::Setting>::shape(),
                        default: config!(@shown $type $(, $default)?),
                        range: config!(@range $type $(, $lo, $hi)?),
                    }),*],
                })
            }
        }

        impl $name {
            /// The value as JSON, in the form that can be configured. Secrets stay out of it.
            #[must_use]
            pub fn to_json(&self) -> serde_json::Value {
                $crate::setting::Setting::encode(self)
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $rename:literal) => { $rename };
    (@absent $node:expr, $of:expr, $key:expr, $cx:expr) => { $crate::setting::missing($node, $of, $key, $cx) };
    (@absent $node:expr, $of:expr, $key:expr, $cx:expr, $default:expr) => { Some($default) };
    (@shown $type:ty) => { None };
    (@shown $type:ty, $default:expr) => {{
        let default: $type = $default;
        Some($crate::setting::Setting::encode(&default))
    }};
    (@range $type:ty) => { None };
    (@range $type:ty, $lo:literal, $hi:literal) => {
        Some($crate::shape::Range {
            low: $lo as f64,
            high: $hi as f64,
            text: (
                <$type as $crate::setting::Setting>::bound($lo as f64),
                <$type as $crate::setting::Setting>::bound($hi as f64),
            ),
        })
    };
    (@word $node:ident, $cx:ident, $variant:ident, $word:literal) => {
        if $node.scalar() == Some($word) {
            return Some(Self::$variant);
        }
    };
    (@word $node:ident, $cx:ident, $variant:ident, $word:literal, $type:ty) => {
        if let [(key, value)] = $node.entries()
            && key.text == $word
        {
            return <$type as $crate::setting::Setting>::decode(value, $cx).map(Self::$variant);
        }
    };
    (@other $node:ident, $cx:ident, $of:expr, $words:expr) => {
        $crate::setting::unknown_word($node, $of, &$words, $cx)
    };
    (@other $node:ident, $cx:ident, $of:expr, $words:expr, $short:path) => { $short($node, $cx) };
    (@written $self:ident, $variant:ident, $word:literal) => {
        if let Self::$variant = $self {
            return serde_json::Value::from($word);
        }
    };
    (@written $self:ident, $variant:ident, $word:literal, $type:ty) => {
        if let Self::$variant(value) = $self {
            return serde_json::json!({ $word: $crate::setting::Setting::encode(value) });
        }
    };
    (@carried) => { None };
    (@carried $type:ty) => { Some(<$type as $crate::setting::Setting>::shape()) };
    (@setting $name:ident [$($doc:literal)*] [$($label:literal, $short:path)?] {
        $([$($vdoc:literal)*] $variant:ident ($($type:ty)?) $word:literal)*
    }) => {
        impl $crate::setting::Setting for $name {
            fn decode(node: &$crate::node::Node, cx: &mut $crate::setting::Context<'_>) -> Option<Self> {
                $(config!(@word node, cx, $variant, $word $(, $type)?);)*
                config!(@other node, cx, stringify!($name), [$($word),*] $(, $short)?)
            }

            fn encode(&self) -> serde_json::Value {
                $(config!(@written self, $variant, $word $(, $type)?);)*
                unreachable!("every variant is written above")
            }

            fn shape() -> $crate::shape::Shape {
                #[allow(unused_mut, unused_assignments, reason = "only some have a short form")]
                let mut short: Option<&'static str> = None;
                $(short = Some($label);)?
                $crate::shape::Shape::Enum($crate::shape::Enum {
                    name: stringify!($name),
                    doc: $crate::shape::doc(&[$($doc),*]),
                    short,
                    variants: vec![$($crate::shape::Variant {
                        word: $word,
                        doc: $crate::shape::doc(&[$($vdoc),*]),
                        of: config!(@carried $($type)?),
                    }),*],
                })
            }
        }
    };
    // words alone
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident $(short($label:literal, $short:path))? {
            $(
                $(#[doc = $vdoc:literal])*
                $variant:ident = $word:literal
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant),*
        }

        impl $name {
            /// The word that stands for it in the configuration.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),*
                }
            }
        }

        config! { @setting $name [$($doc)*] [$($label, $short)?] { $([$($vdoc)*] $variant () $word)* } }
    };
    // words, and one-key maps for those that carry something
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident $(short($label:literal, $short:path))? {
            $(
                $(#[doc = $vdoc:literal])*
                $variant:ident $(($type:ty))? = $word:literal
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant $(($type))?),*
        }

        config! { @setting $name [$($doc)*] [$($label, $short)?] { $([$($vdoc)*] $variant ($($type)?) $word)* } }
    };
}
