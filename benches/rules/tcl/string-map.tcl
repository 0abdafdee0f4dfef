# Escape a value for HTML
set text {<a href="/search?q=tom & jerry">"tom" & 'jerry'</a> and some plain text behind it that needs nothing done}
# body
set out [string map {& &amp; < &lt; > &gt; \" &quot; ' &#39;} $text]
